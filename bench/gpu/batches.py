"""Batches to measure on: random keys and values, unique blocks in random order."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from bench.gpu.timing import Timed, num_sets, timed
from engine.attention import contiguous_attention, contiguous_prefill, paged_attention, paged_prefill

BACKEND = "triton"


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A batch: `num_seqs` sequences of `seq_len` tokens, of which the last `query_len` ask."""

    num_seqs: int
    seq_len: int
    num_heads: int = 32
    num_kv_heads: int = 8
    head_dim: int = 128
    block_size: int = 16
    query_len: int = 1
    dtype: torch.dtype = torch.bfloat16
    cache_dtype: torch.dtype | None = None
    token_scales: bool = False  # of an 8-bit cache
    contiguous: bool = False
    splits: bool = True  # whether a few query tokens go through the decode kernel

    @property
    def stored(self) -> torch.dtype:
        return self.cache_dtype or self.dtype

    @property
    def kv_bytes(self) -> int:
        """Bytes of keys and values of the context, scales of tokens included."""
        vectors = 2 * self.num_seqs * self.seq_len * self.num_kv_heads
        return vectors * (self.head_dim * self.stored.itemsize + 4 * self.token_scales)

    @property
    def flops(self) -> int:
        """Of the two products of a causal prefill: 4 a query, head, dim and key that it sees."""
        first = self.seq_len - self.query_len
        seen = self.query_len * first + self.query_len * (self.query_len + 1) // 2
        return 4 * self.num_seqs * self.num_heads * self.head_dim * seen

    def facts(self) -> dict[str, Any]:
        """For the JSON."""
        names = ("num_seqs", "seq_len", "num_heads", "num_kv_heads", "head_dim", "block_size", "query_len")
        facts = {name: getattr(self, name) for name in names}
        kinds = {"dtype": str(self.dtype), "cache_dtype": str(self.stored), "contiguous": self.contiguous}
        kinds |= {"token_scales": self.token_scales, "splits": self.splits}
        return {**facts, **kinds, "kv_bytes": self.kv_bytes}


def small(shape: Shape, device: torch.device) -> Shape:
    """On a CPU, the same kind of batch at a size that an interpreter gets through."""
    if device.type == "cuda":
        return shape
    group = shape.num_heads // shape.num_kv_heads
    query_len = min(shape.query_len, 20)
    sizes = {
        "num_seqs": min(shape.num_seqs, 2),
        "seq_len": 40,
        "query_len": query_len,
        "dtype": torch.float32,
    }
    block_size = min(shape.block_size, 8)
    return replace(shape, **sizes, num_heads=2 * group, num_kv_heads=2, head_dim=32, block_size=block_size)


class Batch:
    """Tensors of one shape, and the calls on them."""

    def __init__(self, shape: Shape, device: torch.device, seed: int = 0) -> None:
        torch.manual_seed(seed)
        self.shape = shape
        num_blocks = -(-shape.seq_len // shape.block_size)
        slots = shape.num_seqs * num_blocks * shape.block_size
        size = (slots, shape.num_kv_heads, shape.head_dim)
        self.keys, self.values = (random(size, shape.stored, device) for _ in range(2))
        self.options: dict[str, Any] = {"backend": BACKEND}
        if shape.token_scales:
            scales = {name: torch.rand(size[:-1], device=device) for name in ("key_scales", "value_scales")}
            self.options |= (
                scales
                if shape.contiguous
                else {name: one.unflatten(0, (-1, shape.block_size)) for name, one in scales.items()}
            )
        if shape.query_len > 1 and shape.splits:
            self.options["max_query_len"] = shape.query_len
        if shape.contiguous:
            self.options["max_seq_len"] = shape.seq_len
        rows = shape.num_seqs * shape.query_len
        self.query = random((rows, shape.num_heads, shape.head_dim), shape.dtype, device)
        order = torch.randperm(shape.num_seqs * num_blocks, device=device).to(torch.int32)
        self.table = order.view(shape.num_seqs, num_blocks)
        self.starts = torch.arange(shape.num_seqs, device=device) * (num_blocks * shape.block_size)
        self.seq_lens = torch.full((shape.num_seqs,), shape.seq_len, dtype=torch.int32, device=device)
        bounds = torch.arange(shape.num_seqs + 1, device=device) * shape.query_len
        self.query_start_loc = bounds.to(torch.int32)
        self.out = torch.empty_like(self.query)

    @property
    def caches(self) -> tuple[Tensor, Tensor]:
        """As blocks."""
        size = (-1, self.shape.block_size)
        return self.keys.unflatten(0, size), self.values.unflatten(0, size)

    def run(self) -> Tensor:
        """The kernel that is measured."""
        if self.shape.contiguous:
            place = (self.keys, self.values, self.starts, self.seq_lens)
            functions = (contiguous_attention, contiguous_prefill)
        else:
            place = (*self.caches, self.table, self.seq_lens)
            functions = (paged_attention, paged_prefill)
        if self.shape.query_len == 1:
            return functions[0](self.query, *place, out=self.out, **self.options)
        return functions[1](self.query, *place, self.query_start_loc, out=self.out, **self.options)


def random(size: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Normal numbers; whole ones for int8. Never zeros, which a GPU moves faster."""
    if dtype == torch.int8:
        return torch.randint(-127, 128, size, dtype=torch.int8, device=device)
    half = torch.float16 if dtype.itemsize < 4 else dtype
    return torch.randn(size, dtype=half, device=device).to(dtype)


def measure(shape: Shape, device: torch.device) -> tuple[Timed, int]:
    """The time of one call, and how many sets of data it went through by turns."""
    count = num_sets(shape.kv_bytes, device)
    batches = [Batch(shape, device, seed) for seed in range(count)]
    return timed([batch.run for batch in batches], device), count
