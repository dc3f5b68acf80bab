"""The loops of backend `cpu` on processors narrower than this one, as numba is told to compile for."""

import pytest

from tests.engine.attention.processes import outside_the_interpreter


@pytest.mark.parametrize(
    ("features", "lanes", "has_f16c"),
    [("+avx2,+fma,+f16c", 8, True), ("+sse2", 8, False)],
    ids=["avx2", "sse2"],
)
def test_attention_equals_the_reference_at_every_width(
    features: str, lanes: int, has_f16c: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CPU_NAME", "generic")
    monkeypatch.setenv("NUMBA_CPU_FEATURES", features)
    assert outside_the_interpreter("-m", "tests.engine.attention.lanes") == [lanes, has_f16c]
