"""Seeded random weights, bit-identical on every device.

A torch generator gives other numbers on a GPU than on a CPU. A weight here is instead a function of
(seed, tensor name, element index): integer hashing, which is exact everywhere, so that a CPU run and
a GPU run decode with one and the same model and their tokens can be compared.
"""

from math import prod, sqrt
from zlib import crc32

import torch
from torch import Tensor

MASK = 0xFFFFFFFF
CHUNK = 1 << 22  # elements hashed at a time: bounds the int64 scratch memory to a few 32 MiB buffers


def hashed_uniform(
    seed: int, name: str, shape: tuple[int, ...], std: float, dtype: torch.dtype, device: torch.device
) -> Tensor:
    """Values uniform in (-std * sqrt(3), std * sqrt(3)): mean 0, standard deviation `std`."""
    weights = torch.empty(prod(shape), dtype=dtype, device=device)
    key = crc32(f"{seed}/{name}".encode())
    for start in range(0, weights.numel(), CHUNK):
        stop = min(start + CHUNK, weights.numel())
        bits = _mix(_mix(torch.arange(start, stop, device=device) ^ key) + key)
        unit = (bits >> 8).to(torch.float32) * 2.0**-23 - 1.0  # 24 bits: exact in float32
        weights[start:stop] = unit * (std * sqrt(3.0))
    return weights.view(shape)


def _mix(x: Tensor) -> Tensor:
    """A bijection of 32-bit integers that spreads every input bit (the finalizer of MurmurHash3)."""
    x = x & MASK
    x = ((x ^ (x >> 16)) * 0x85EBCA6B) & MASK
    x = ((x ^ (x >> 13)) * 0xC2B2AE35) & MASK
    return x ^ (x >> 16)
