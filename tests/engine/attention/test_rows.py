"""Numbers of 16 bits as float32, each of all there are, by vectors and without instructions for it."""

from typing import Any

import numba
import numpy as np
import pytest
import torch

from engine.attention import cpu_vectors
from engine.attention.cpu_rows import widen

ALL = np.arange(1 << 16, dtype=np.uint16)
WIDTH = len(ALL) - 3  # not whole vectors only


def widened(codes: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """What `widen`, compiled for this array, makes of them."""

    @numba.njit
    def run(source: Any, rows: Any) -> None:
        widen(source, 0, np.zeros(0, np.float32), rows, 0, WIDTH)

    rows = np.zeros((1, len(codes)), np.float32)
    run(codes, rows)
    assert not rows[0, WIDTH:].any(), "nothing is written past the width"
    return rows[0, :WIDTH]


def test_every_bfloat16() -> None:
    expected = torch.from_numpy(ALL.view(np.int16)).view(torch.bfloat16).float().numpy()
    np.testing.assert_array_equal(
        widened(ALL.view(np.int16)).view(np.uint32), expected.view(np.uint32)[:WIDTH]
    )


@pytest.mark.skipif(not cpu_vectors.HAS_F16C, reason="this processor has no F16C")
def test_every_float16_by_vectors() -> None:
    assert_halves(widened(ALL))


def test_every_float16_without_f16c(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_vectors, "HAS_F16C", False)
    read_only = ALL.copy()
    read_only.setflags(write=False)  # another type for numba, which remembers what it chose for one
    assert not cpu_vectors.can_widen(cpu_vectors.FLOAT16)
    assert_halves(widened(read_only))


def assert_halves(numbers: np.ndarray[Any, Any]) -> None:
    expected = ALL.view(np.float16).astype(np.float32)[:WIDTH]
    np.testing.assert_array_equal(numbers, expected)
    np.testing.assert_array_equal(np.signbit(numbers), np.signbit(expected))
