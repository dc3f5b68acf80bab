"""A cache of 8-bit codes, with one float32 scale for each token and kv head of K and of V.

A slot's vector and its scale lie side by side, so that a copy, a swap or a fill moves both:

    [ D codes of one byte | 4 bytes of scale ]      sim.models counts D + 4 bytes, and so many there are

    number = code * scale        scale = largest |number| of the vector / largest code
    NaN    a vector with one has a scale of NaN, and codes that are not the sentinel
    int8   codes -127..127; -128 is the sentinel        fp8   e4m3, to +-448; a NaN is the sentinel

The attention kernels take one scale for a kv head, not one for each token. So a step widens what it is about
to read, each block once for all its sequences, and attends over that: what is held is small, the traffic
is not.
"""

import torch
from torch import Tensor

from engine.attend import Cache, ContiguousAttend, PagedAttend, Reading
from engine.attention import write_kv
from engine.attention.write import LARGEST_CODE
from engine.flat import FlatBatch
from sim.models import SCALE_BYTES

QUANTIZED = {"int8": torch.int8, "fp8": torch.float8_e4m3fn}


def vector_bytes(head_dim: int, dtype: torch.dtype) -> int:
    """Elements of one stored vector: a quantized one has its scale behind it."""
    return head_dim + (SCALE_BYTES if dtype in QUANTIZED.values() else 0)


def codes_of(vectors: Tensor) -> Tensor:
    """The codes [..., D] of stored vectors [..., D + 4], as a view."""
    return vectors[..., :-SCALE_BYTES]


def scales_of(vectors: Tensor) -> Tensor:
    """The scales, float32 [...], of stored vectors [..., D + 4], as a view."""
    return vectors.view(torch.uint8)[..., -SCALE_BYTES:].view(torch.float32).squeeze(-1)


def scales_for(numbers: Tensor, dtype: torch.dtype) -> Tensor:
    """float32 [...]: what vectors [..., D] are divided by: their largest number gets the largest code."""
    largest = numbers.float().abs().amax(dim=-1)
    return torch.where(largest == 0, 1.0, largest / LARGEST_CODE[dtype])


def put(numbers: Tensor, stored: Tensor, slots: Tensor) -> Tensor:
    """Stores the scales of `numbers` [T, HKV, D] in their slots; gives what is to be rounded to codes."""
    scales = scales_for(numbers, stored.dtype)
    where = (slots,) if stored.dim() == 3 else (slots // stored.shape[1], slots % stored.shape[1])
    scales_of(stored)[where] = scales
    return (numbers.float() / scales.unsqueeze(-1)).nan_to_num(0.0)


def widen(stored: Tensor, indices: Tensor, dtype: torch.dtype) -> Tensor:
    """`stored[indices]` as numbers, a copy."""
    picked = stored.view(torch.uint8)[indices].view(stored.dtype)
    return (codes_of(picked).float() * scales_of(picked).unsqueeze(-1)).to(dtype)


def store(cache: Cache, layer: int, key: Tensor, value: Tensor, slots: Tensor) -> None:
    """Writes codes and scales of all tokens of the step."""
    keys, values = cache.keys(layer), cache.values(layer)
    key, value = put(key, keys, slots), put(value, values, slots)
    write_kv(key, value, codes_of(keys), codes_of(values), slots)


class WidePagedAttend(PagedAttend):
    """Attends over copies of the blocks that the step's sequences hold."""

    def __init__(
        self, cache: Cache, batch: FlatBatch, reading: Reading, tables: Tensor, block_size: int
    ) -> None:
        super().__init__(cache, batch, reading, tables, block_size)
        is_block = self.address >= 0
        self._blocks, copies = self.address[is_block].long().unique(return_inverse=True)
        self.address = self.address.masked_scatter(is_block, copies.int())

    def store(self, layer: int, key: Tensor, value: Tensor) -> None:
        store(self.cache, layer, key, value, self.slots)

    def read(self, layer: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        cache = self.cache
        return widen(cache.keys(layer), self._blocks, dtype), widen(cache.values(layer), self._blocks, dtype)


class WideContiguousAttend(ContiguousAttend):
    """Attends over copies of what the step's sequences have stored, one behind the other."""

    def __init__(self, cache: Cache, batch: FlatBatch, reading: Reading, ranges: Tensor) -> None:
        super().__init__(cache, batch, reading, ranges)
        lengths = batch.seq_lens.long()
        firsts = lengths.cumsum(0) - lengths
        shift = (self.address - firsts).repeat_interleave(lengths)
        self._read_slots = torch.arange(len(shift), device=shift.device) + shift
        self.address = firsts

    def store(self, layer: int, key: Tensor, value: Tensor) -> None:
        store(self.cache, layer, key, value, self.slots)

    def read(self, layer: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        cache, slots = self.cache, self._read_slots
        return widen(cache.keys(layer), slots, dtype), widen(cache.values(layer), slots, dtype)
