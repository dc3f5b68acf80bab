"""The sentinel: bits that mark a slot as never written, told apart from every computed value.

The codes are *signaling* NaNs. Any arithmetic on one, and any conversion between floating types,
turns it into a quiet NaN with other bits, so no kernel can compute these bits; only a fill or a plain
copy puts them into memory. Compared as integers, an ordinary NaN that a kernel does produce is not
mistaken for them: it counts as written. Quantized caches have no such NaN: a code is set aside for them.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

#                  sign | exponent, all ones | mantissa: top bit 0 (signaling), not all 0
SENTINELS: dict[torch.dtype, tuple[torch.dtype, int]] = {
    torch.float32: (torch.int32, 0x7FA5A5A5),
    torch.bfloat16: (torch.int16, 0x7FA5),
    torch.float16: (torch.int16, 0x7D5A),
    torch.float8_e4m3fn: (torch.int8, -1),  # NaN with its sign set; conversions saturate and set no sign
    torch.int8: (torch.int8, -128),  # the one code that `write_kv` never uses
}


def new_pool(
    shape: tuple[int, ...],
    dtype: torch.dtype,
    device: torch.device,
    *,
    pinned: bool = False,
    is_marked: bool = True,
) -> Tensor:
    """A tensor of `shape` in which every element is the sentinel, or whatever is there if it is not marked.

    A pool that nobody looks into need not be: what is not written takes no memory of the system then.
    """
    if not is_marked:
        return torch.empty(shape, dtype=dtype, device=device, pin_memory=pinned)
    bits, code = SENTINELS[dtype]
    return torch.full(shape, code, dtype=bits, device=device, pin_memory=pinned).view(dtype)


def bits_of(pool: Tensor) -> Tensor:
    """The same memory as integers of the same width: copies of them cannot change a bit."""
    return pool.view(SENTINELS[pool.dtype][0])


def sentinel_bits(pool: Tensor) -> tuple[Tensor, int]:
    """The memory as integers, and the sentinel's code among them."""
    return bits_of(pool), SENTINELS[pool.dtype][1]


def fill(pool: Tensor, indices: Tensor) -> None:
    """Fills `pool[indices]` with the sentinel; `indices` is int64 along the first dimension."""
    bits, code = sentinel_bits(pool)
    bits.index_fill_(0, indices, code)


def is_written(pool: Tensor) -> Tensor:
    """A boolean of the same shape: True where the bits are not the sentinel's."""
    bits, code = sentinel_bits(pool)
    return bits != code


def scan_parts(
    parts: Sequence[Tensor], slot_dims: tuple[int, ...]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which slots are written, and which are torn: bool [num_slots] each, reduced on the pool's device.

    `slot_dims` are the dimensions that together number the slots. The first part has vectors in its last
    dimension, of which one element is read; the scales of a second part have none. A slot is written when its
    first vector is, torn when only some vectors or scales are.
    """
    written = is_written(parts[0][..., 0])
    others = tuple(dim for dim in range(written.dim()) if dim not in slot_dims)
    first = written[tuple(slice(None) if dim in slot_dims else 0 for dim in range(written.dim()))]
    every = [written, *(is_written(scales) for scales in parts[1:])]
    num_written = torch.stack([one.sum(dim=others, dtype=torch.int32) for one in every])  # of each slot
    all_vectors = written.numel() // first.numel()
    is_torn = (num_written > 0).any(dim=0) & (num_written < all_vectors).any(dim=0)
    return first.flatten().cpu().numpy(), is_torn.flatten().cpu().numpy()
