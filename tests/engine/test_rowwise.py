"""One pass over memory gives what torch's several passes give."""

import pytest
import torch
from torch.nn import functional

from engine.rowwise import rms_norm, swiglu

SHAPES = [(0, 8), (1, 1), (3, 7), (33, 576), (300, 500)]


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


@pytest.mark.parametrize("shape", SHAPES)
def test_the_norm_is_torchs(shape: tuple[int, int]) -> None:
    x, weight = 3 * drawn(*shape), drawn(shape[1])
    theirs = functional.rms_norm(x, weight.shape, weight, 1e-5)
    torch.testing.assert_close(rms_norm(x, weight, 1e-5), theirs, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_gate_is_torchs_also_where_an_exponential_would_overflow(shape: tuple[int, int]) -> None:
    gate, up = 60 * drawn(*shape), drawn(*shape)
    ours = swiglu(torch.cat([gate, up], dim=1))
    torch.testing.assert_close(ours, functional.silu(gate) * up, rtol=1e-5, atol=1e-6)


def test_other_dtypes_and_strided_rows_are_served_as_well() -> None:
    x, weight = drawn(4, 16), drawn(16)
    for other in (x.bfloat16(), x.double(), x.T.contiguous().T):
        scale = weight.to(other.dtype)
        theirs = functional.rms_norm(other, scale.shape, scale, 1e-5)
        torch.testing.assert_close(rms_norm(other, scale, 1e-5), theirs)
        torch.testing.assert_close(swiglu(other), functional.silu(other[:, :8]) * other[:, 8:])
