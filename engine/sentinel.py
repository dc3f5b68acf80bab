"""The sentinel: bits that mark a slot as never written, told apart from every computed value.

The codes are *signaling* NaNs. Any arithmetic on one, and any conversion between floating types,
turns it into a quiet NaN with other bits, so no kernel can compute these bits; only a fill or a plain
copy puts them into memory. Compared as integers, an ordinary NaN that a kernel does produce is not
mistaken for them: it counts as written.
"""

import torch
from torch import Tensor

#                  sign | exponent, all ones | mantissa: top bit 0 (signaling), not all 0
SENTINELS: dict[torch.dtype, tuple[torch.dtype, int]] = {
    torch.float32: (torch.int32, 0x7FA5A5A5),
    torch.bfloat16: (torch.int16, 0x7FA5),
    torch.float16: (torch.int16, 0x7D5A),
}


def new_pool(
    shape: tuple[int, ...], dtype: torch.dtype, device: torch.device, *, pinned: bool = False
) -> Tensor:
    """A tensor of `shape` in which every element is the sentinel."""
    bits, code = SENTINELS[dtype]
    return torch.full(shape, code, dtype=bits, device=device, pin_memory=pinned).view(dtype)


def fill(pool: Tensor, indices: Tensor) -> None:
    """Fills `pool[indices]` with the sentinel; `indices` is int64 along the first dimension."""
    bits, code = SENTINELS[pool.dtype]
    pool.view(bits).index_fill_(0, indices, code)


def is_written(pool: Tensor) -> Tensor:
    """A boolean of the same shape: True where the bits are not the sentinel's."""
    bits, code = SENTINELS[pool.dtype]
    return pool.view(bits) != code
