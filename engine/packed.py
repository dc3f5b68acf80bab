"""Matrices laid out once for products with few rows, instead of at every product (`engine.packed_loops`)."""

import ctypes
import sys

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import linear, pad

from engine.packed_loops import BLOCK, BOARD_SIZE, WIDTH, multiply, multiply_with_help, stand_by
from engine.team import Standby

PIECE = 1 << 19  # multiplications of one piece of work
ALONE = 1 << 19  # below so many in all, telling another thread takes longer than it saves
PATIENCE = 1 << 15  # looks at the board: enough for what a step does between two products


class PackedMatrix:
    """A float32 matrix [out, in] on the CPU, in panels of WIDTH rows, the last one filled up with zeros."""

    def __init__(self, matrix: Tensor) -> None:
        if matrix.ndim != 2 or not matrix.numel():
            raise ValueError(f"matrix is {list(matrix.shape)}: must be [out, in], with something in it")
        self.shape = matrix.shape
        self.nbytes = matrix.nbytes
        num_out, num_in = matrix.shape
        filled = pad(matrix, (0, 0, 0, -num_out % WIDTH)) if num_out % WIDTH else matrix
        turned = filled.view(-1, WIDTH, num_in).transpose(1, 2).contiguous()
        self._panels = turned.numpy()  # [panels, in, WIDTH]

    def __call__(self, x: Tensor, bias: Tensor | None) -> Tensor:
        """`x` [rows, in] times the transposed matrix, plus `bias` [out]: [rows, out].

        Raises ValueError for another width, which would be read past its end.
        """
        if x.ndim != 2 or x.shape[1] != self.shape[1]:
            raise ValueError(f"x is {list(x.shape)}: must be [rows, {self.shape[1]}]")
        panels, rows = self._panels, x.contiguous().numpy()
        out = torch.empty(len(x), len(panels) * WIDTH)
        counter, result = np.zeros(1, np.int64), out.numpy()
        of_one_panel = max(1, min(len(x), BLOCK) * self.shape[1] * WIDTH)
        num_panels = max(1, PIECE // of_one_panel)

        if of_one_panel * len(panels) < ALONE:
            multiply(rows, panels, result, num_panels, counter)
        else:
            _helpers.call_up()
            multiply_with_help(_helpers.board, rows, panels, result, num_panels, counter)
        product = out[:, : self.shape[0]]
        return product if bias is None else product.add_(bias)

    def __getitem__(self, index: Tensor) -> Tensor:
        """Rows [n, in] of the matrix; `index` is int64 [n]. Raises IndexError for one that it has not."""
        rows = index.numpy()
        if len(rows) and not 0 <= rows.min() <= rows.max() < self.shape[0]:
            raise IndexError(f"rows {rows.min()} to {rows.max()}: the matrix has 0 to {self.shape[0] - 1}")
        return torch.from_numpy(self._panels[rows // WIDTH, :, rows % WIDTH])


_helpers = Standby(stand_by, BOARD_SIZE, PATIENCE)
Matrix = Tensor | PackedMatrix


def project(x: Tensor, matrix: Matrix, bias: Tensor | None = None) -> Tensor:
    """`x` [rows, in] times the transposed `matrix` [out, in], plus `bias`: [rows, out]."""
    if isinstance(matrix, PackedMatrix):
        return matrix(x, bias)
    return linear(x, matrix, bias)


def give_back_free_memory() -> None:
    """Returns to the system what loading and packing left free within the heap, where glibc keeps one."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


def can_pack(dtype: torch.dtype, device: torch.device) -> bool:
    """Whether there are loops for matrices of `dtype` on `device`."""
    return device.type == "cpu" and dtype is torch.float32
