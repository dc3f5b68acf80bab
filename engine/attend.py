"""One step's attention over a pool: store the new keys and values, then decode and prefill kernels read."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from engine.attention.features import Options
from engine.attention.kv import KV, ContiguousKV, PagedKV
from engine.attention.prepared import Prepared, prepare_decode, prepare_prefill
from engine.attention.write import check_write
from engine.attention.write import write_checked as write_kv
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
    """`engine.model.Attend` for one batch. A subclass says how its pool is addressed.

    Queries, keys and values are rounded to the cache's dtype before a kernel sees them; the result goes
    back to the model's. Slots, tables and lengths are the same in all layers: the first layer has them
    checked and planned, the others use that.
    """

    def __init__(self, cache: Cache, batch: FlatBatch, reading: Reading, slots: Tensor) -> None:
        self.cache = cache
        self.batch = batch
        self.slots = slots  # int64 [T], where each token of the step goes
        self._backend = reading.backend
        self._options = Options(window=reading.window, sinks=reading.sinks)
        self._is_checked = False  # whether the slots lie in the pool
        self._decode: Prepared | None = None
        self._prefill: Prepared | None = None

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Stores `key` and `value` [T, HKV, D], then attends `query` [T, H, D]; gives [T, H, D]."""
        model_dtype = query.dtype
        self.store(layer, key, value)
        keys, values = self.read(layer, model_dtype)
        query = query.to(keys.dtype)
        out, n = torch.empty_like(query), self.batch.num_decodes
        if n > 0:
            self._decode = self._decode or self._prepare_decode(query[:n], keys, values)
            self._decode(query[:n], keys, values, out[:n])
        if n < len(query):
            self._prefill = self._prefill or self._prepare_prefill(query[n:], keys, values)
            self._prefill(query[n:], keys, values, out[n:])
        return out.to(model_dtype)

    def store(self, layer: int, key: Tensor, value: Tensor) -> None:
        """Writes the keys and values of all tokens of the step."""
        dtype, keys, values = self.cache.dtype, self.cache.keys(layer), self.cache.values(layer)
        key, value = key.to(dtype), value.to(dtype)
        if not self._is_checked:
            check_write(key, value, keys, values, self.slots)
            self._is_checked = True
        write_kv(key, value, keys, values, self.slots)

    def read(self, layer: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """The keys and values that kernels read: the cache itself, or numbers of `dtype` for its codes."""
        return self.cache.keys(layer), self.cache.values(layer)

    @abstractmethod
    def kv(self, keys: Tensor, values: Tensor, sequences: slice) -> KV:
        """Keys and values as these sequences of the batch address them."""

    def _prepare_decode(self, query: Tensor, keys: Tensor, values: Tensor) -> Prepared:
        """Attention of the first `num_decodes` sequences, one query each."""
        decodes = slice(self.batch.num_decodes)
        kv, lengths = self.kv(keys, values, decodes), self.batch.seq_lens[decodes]
        return prepare_decode(query, kv, lengths, self._options, self._backend)

    def _prepare_prefill(self, query: Tensor, keys: Tensor, values: Tensor) -> Prepared:
        """Attention of the other sequences, each query to its own position and those before."""
        others = slice(self.batch.num_decodes, None)
        kv, lengths = self.kv(keys, values, others), self.batch.seq_lens[others]
        return prepare_prefill(query, kv, lengths, self.batch.prefill_starts, self._options, self._backend)


class PagedAttend(StepAttend):
    """Writes and reads blocks through the rows of a table tensor, int32 [max_rows, max_blocks]."""

    def __init__(
        self, cache: Cache, batch: FlatBatch, reading: Reading, tables: Tensor, block_size: int
    ) -> None:
        self.tables = tables[batch.rows]  # int32 [S, max_blocks]
        blocks = self.tables[batch.sequence_of, batch.positions // block_size].long()
        super().__init__(cache, batch, reading, blocks * block_size + batch.positions % block_size)

    def kv(self, keys: Tensor, values: Tensor, sequences: slice) -> KV:
        return PagedKV(keys, values, self.tables[sequences])


class ContiguousAttend(StepAttend):
    """Writes and reads ranges; `ranges` is int64 [max_rows, 3] and has each start in its first column."""

    def __init__(self, cache: Cache, batch: FlatBatch, reading: Reading, ranges: Tensor) -> None:
        self.starts = ranges[batch.rows, 0]  # int64 [S]
        super().__init__(cache, batch, reading, self.starts[batch.sequence_of] + batch.positions)

    def kv(self, keys: Tensor, values: Tensor, sequences: slice) -> KV:
        return ContiguousKV(keys, values, self.starts[sequences])
