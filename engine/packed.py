"""Matrices laid out once for oneDNN, the library of torch's CPU products, instead of at every product.

`linear` gets a row-major matrix and lets oneDNN rearrange it in every call. A decode step multiplies all
weights with few rows, so it is the rearranging that takes the time: `bench/results/peers.json` has both.
"""

import torch
from torch import Tensor
from torch.nn.functional import linear

USUAL_ROWS = 32  # what the layout is chosen for; it serves any other count too


class PackedMatrix:
    """A float32 matrix [out, in] on the CPU in oneDNN's own layout. Its elements cannot be read back."""

    def __init__(self, matrix: Tensor) -> None:
        self.shape = matrix.shape
        self.nbytes = matrix.nbytes
        self._packed = torch.ops.mkldnn._reorder_linear_weight(matrix.contiguous(), USUAL_ROWS)

    def __call__(self, x: Tensor, bias: Tensor | None) -> Tensor:
        """`x` [rows, in] times the transposed matrix, plus `bias` [out]: [rows, out]."""
        return torch.ops.mkldnn._linear_pointwise(x, self._packed, bias, "none", [], "")


Matrix = Tensor | PackedMatrix


def project(x: Tensor, matrix: Matrix, bias: Tensor | None = None) -> Tensor:
    """`x` [rows, in] times the transposed `matrix` [out, in], plus `bias`: [rows, out]."""
    if isinstance(matrix, PackedMatrix):
        return matrix(x, bias)
    return linear(x, matrix, bias)


def can_pack(dtype: torch.dtype, device: torch.device) -> bool:
    """Whether this torch multiplies packed matrices of `dtype` on `device`."""
    return (
        device.type == "cpu"
        and dtype is torch.float32
        and torch.backends.mkldnn.is_available()
        and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")
    )
