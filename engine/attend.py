"""One step's attention over a pool: store the new keys and values, then decode and prefill kernels read."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from engine.attention import (
    contiguous_attention,
    contiguous_prefill,
    paged_attention,
    paged_prefill,
    write_kv,
)
from engine.flat import FlatBatch


class Cache(Protocol):
    """Where keys and values lie."""

    dtype: torch.dtype

    def keys(self, layer: int) -> Tensor:
        """A view [num_blocks, block_size, HKV, D], or [num_slots, HKV, D]."""
        ...

    def values(self, layer: int) -> Tensor:
        """A view of the same shape."""
        ...


@dataclass(frozen=True, slots=True)
class Reading:
    """What attention does with what it reads: which backend, and how far a query sees."""

    backend: str = "auto"
    window: int | None = None
    sinks: int = 0

    def options(self) -> dict[str, Any]:
        """As keyword arguments of the kernels."""
        return {"backend": self.backend, "window": self.window, "sinks": self.sinks}


class StepAttend(ABC):
    """`engine.model.Attend` for one batch. A subclass says how its pool is written and read.

    Queries, keys and values are rounded to the cache's dtype before a kernel sees them; the result goes
    back to the model's.
    """

    def __init__(self, cache: Cache, batch: FlatBatch, reading: Reading, slots: Tensor) -> None:
        self.cache = cache
        self.batch = batch
        self.slots = slots  # int64 [T], where each token of the step goes
        self.options = reading.options()

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Stores `key` and `value` [T, HKV, D], then attends `query` [T, H, D]; gives [T, H, D]."""
        model_dtype = query.dtype
        self.store(layer, key, value)
        keys, values = self.read(layer, model_dtype)
        query = query.to(keys.dtype)
        out, n = torch.empty_like(query), self.batch.num_decodes
        if n > 0:
            self.decode(keys, values, query[:n], out[:n])
        if n < len(query):
            self.prefill(keys, values, query[n:], out[n:])
        return out.to(model_dtype)

    def store(self, layer: int, key: Tensor, value: Tensor) -> None:
        """Writes the keys and values of all tokens of the step."""
        dtype = self.cache.dtype
        write_kv(key.to(dtype), value.to(dtype), self.cache.keys(layer), self.cache.values(layer), self.slots)

    def read(self, layer: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """The keys and values that kernels read: the cache itself, or numbers of `dtype` for its codes."""
        return self.cache.keys(layer), self.cache.values(layer)

    @abstractmethod
    def decode(self, keys: Tensor, values: Tensor, query: Tensor, out: Tensor) -> None:
        """Attention of the first `num_decodes` sequences, one query each, into `out`."""

    @abstractmethod
    def prefill(self, keys: Tensor, values: Tensor, query: Tensor, out: Tensor) -> None:
        """Attention of the other sequences, each query to its own position and those before, into `out`."""


class PagedAttend(StepAttend):
    """Writes and reads blocks through the rows of a table tensor, int32 [max_rows, max_blocks]."""

    def __init__(
        self, cache: Cache, batch: FlatBatch, reading: Reading, tables: Tensor, block_size: int
    ) -> None:
        self.tables = tables[batch.rows]  # int32 [S, max_blocks]
        blocks = self.tables[batch.sequence_of, batch.positions // block_size].long()
        super().__init__(cache, batch, reading, blocks * block_size + batch.positions % block_size)

    def decode(self, keys: Tensor, values: Tensor, query: Tensor, out: Tensor) -> None:
        n, lengths = self.batch.num_decodes, self.batch.seq_lens
        paged_attention(query, keys, values, self.tables[:n], lengths[:n], out=out, **self.options)

    def prefill(self, keys: Tensor, values: Tensor, query: Tensor, out: Tensor) -> None:
        n, lengths, loc = self.batch.num_decodes, self.batch.seq_lens, self.batch.prefill_starts
        paged_prefill(query, keys, values, self.tables[n:], lengths[n:], loc, out=out, **self.options)


class ContiguousAttend(StepAttend):
    """Writes and reads ranges; `ranges` is int64 [max_rows, 3] and has each start in its first column."""

    def __init__(self, cache: Cache, batch: FlatBatch, reading: Reading, ranges: Tensor) -> None:
        self.starts = ranges[batch.rows, 0]  # int64 [S]
        super().__init__(cache, batch, reading, self.starts[batch.sequence_of] + batch.positions)

    def decode(self, keys: Tensor, values: Tensor, query: Tensor, out: Tensor) -> None:
        n, lengths = self.batch.num_decodes, self.batch.seq_lens
        contiguous_attention(query, keys, values, self.starts[:n], lengths[:n], out=out, **self.options)

    def prefill(self, keys: Tensor, values: Tensor, query: Tensor, out: Tensor) -> None:
        n, lengths, loc = self.batch.num_decodes, self.batch.seq_lens, self.batch.prefill_starts
        contiguous_prefill(query, keys, values, self.starts[n:], lengths[n:], loc, out=out, **self.options)
