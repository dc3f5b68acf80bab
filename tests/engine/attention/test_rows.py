"""Numbers of 16 and of 8 bits as float32, each of all there are, by instructions for it and without."""

from typing import Any

import numba
import numpy as np
import pytest
import torch

from engine.attention import cpu_vectors
from engine.attention.cpu_backend import STORED_AS
from engine.attention.cpu_vectors import widen_vectors

SMALL = [torch.float16, torch.bfloat16, torch.int8, torch.float8_e4m3fn, torch.float8_e5m2]


def widened(numbers: np.ndarray[Any, Any], width: int) -> np.ndarray[Any, Any]:
    """What `widen_vectors`, compiled anew, makes of the first `width` of them."""

    @numba.njit
    def run(source: Any, rows: Any) -> None:
        widen_vectors(source, 0, rows, 0, width)  # pyright: ignore[reportCallIssue]

    rows = np.zeros((1, len(numbers)), np.float32)
    run(numbers, rows)
    assert not rows[0, width:].any(), "nothing is written past the width"
    return rows[0, :width]


@pytest.mark.parametrize("has_f16c", [True, False], ids=["f16c", "plain"])
@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_every_number_there_is(dtype: torch.dtype, has_f16c: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if has_f16c and not cpu_vectors.HAS_F16C:
        pytest.skip("this processor has no F16C")
    monkeypatch.setattr(cpu_vectors, "HAS_F16C", has_f16c)
    bits = torch.arange(1 << 8 * dtype.itemsize)
    numbers = bits.to(torch.uint8 if dtype.itemsize == 1 else torch.uint16).view(dtype)
    width = len(numbers) - 3  # not whole vectors only
    stored = numbers.view(STORED_AS[dtype]).numpy()
    if not has_f16c:
        stored.setflags(write=False)  # another type for numba, which remembers what it emitted for one
    expected = numbers.float().numpy()[:width]
    got = widened(stored, width)
    np.testing.assert_array_equal(got, expected)
    is_number = ~np.isnan(expected)  # a NaN may have either sign
    np.testing.assert_array_equal(np.signbit(got[is_number]), np.signbit(expected[is_number]))
