"""One step's attention over a pool: store the new keys and values, then decode and prefill kernels read."""

from abc import ABC, abstractmethod
from copy import copy
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from engine.attention.features import Options
from engine.attention.kv import KV, ContiguousKV, PagedKV, Stored
from engine.attention.prepared import Prepared, prepare_decode, prepare_prefill
from engine.attention.write import check_write, write_checked
from engine.flat import FlatBatch, Span


class Cache(Protocol):
    """Where keys and values lie."""

    dtype: torch.dtype

    def stored(self, layer: int) -> Stored:
        """Views [num_blocks, block_size, HKV, D], or [num_slots, HKV, D], and the scales of codes."""
        ...


@dataclass(frozen=True, slots=True)
class Reading:
    """What attention does with what it reads: which backend, and how far a query sees."""

    backend: str = "auto"
    window: int | None = None
    sinks: int = 0
    seen_until: Tensor | None = None  # int32 [max_rows, tokens]: the last query position to see each

    def options(self) -> dict[str, Any]:
        """As keyword arguments of the kernels."""
        return {"backend": self.backend, "window": self.window, "sinks": self.sinks}


MIN_REACH = 1024


def reach_of(longest: int) -> int:
    """What tables are cut to: a power of two of tokens that holds the longest sequence. Few numbers, so that
    graphs are recorded seldom; no more than twice what is needed, which the grid of a kernel grows with."""
    return max(MIN_REACH, 1 << (longest - 1).bit_length())


def write_kv(key: Tensor, value: Tensor, keys: Tensor, values: Tensor, slots: Tensor) -> None:
    """Stores a step's keys and values. Lessons and tests plant faults in its place."""
    write_checked(key, value, Stored(keys, values), slots)


class StepAttend(ABC):
    """`engine.model.Attend` for one batch. A subclass says how its pool is addressed.

    Queries, keys and values are rounded to the cache's dtype before a kernel sees them, but not to codes; the
    result goes back to the model's. Slots, tables and lengths are the same in all layers: the first layer has
    them checked and planned, the others use that.
    """

    address: Tensor  # of each sequence: its row of blocks, or its first slot

    def __init__(self, cache: Cache, batch: FlatBatch, reading: Reading, slots: Tensor) -> None:
        self.cache = cache
        self.batch = batch
        self.slots = slots  # int64 [T], where each token of the step goes
        self.reach = reach_of(batch.longest)  # no sequence is longer
        self.has_dropped = reading.seen_until is not None
        self._backend = reading.backend
        self._options = Options(window=reading.window, sinks=reading.sinks)
        until = reading.seen_until
        self._until = until if until is None else until[batch.rows, : self.reach]
        self._forget()

    def over(self, batch: FlatBatch, slots: Tensor, address: Tensor) -> "StepAttend":
        """The same cache and reading, for other tensors."""
        other = copy(self)
        other.batch, other.slots, other.address = batch, slots, address
        other._forget()
        return other

    def _forget(self) -> None:
        """What the first layer finds out."""
        self._is_checked = False  # whether the slots lie in the pool
        self._prepared: list[Prepared] = []  # one for each span of the batch

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Stores `key` and `value` [T, HKV, D], then attends `query` [T, H, D]; gives [T, H, D]."""
        model_dtype, stored = query.dtype, self.cache.stored(layer)
        if stored.key_scales is None:  # codes are made of the numbers as they are
            query, key, value = (new.to(self.cache.dtype) for new in (query, key, value))
        if not self._is_checked:
            check_write(key, value, stored, self.slots)
            self._is_checked = True
        if stored.key_scales is None:
            write_kv(key, value, stored.keys, stored.values, self.slots)
        else:
            write_checked(key, value, stored, self.slots)
        out = torch.empty_like(query)
        if not self._prepared:
            self._prepared = [self._prepare(span, query[span.tokens], stored) for span in self.batch.spans]
        for span, attention in zip(self.batch.spans, self._prepared, strict=True):
            attention(query[span.tokens], stored, out[span.tokens])
        return out.to(model_dtype)

    @abstractmethod
    def kv(self, stored: Stored, sequences: slice) -> KV:
        """A layer's cache as these sequences of the batch address it."""

    def _prepare(self, span: Span, query: Tensor, stored: Stored) -> Prepared:
        """Attention of some sequences of the batch, each query to its own position and those before."""
        kv, lengths = self.kv(stored, span.sequences), self.batch.seq_lens[span.sequences]
        options = self._options
        if self._until is not None and not span.is_prefill:  # while an input is read, none of it is dropped
            options = options._replace(seen_until=self._until[span.sequences])
        if span.starts is None:
            return prepare_decode(query, kv, lengths, options, self._backend)
        most = span.max_query_len
        return prepare_prefill(query, kv, lengths, span.starts, options, self._backend, most)


class PagedAttend(StepAttend):
    """Writes and reads blocks through the rows of a table tensor, int32 [max_rows, max_blocks]."""

    def __init__(
        self, cache: Cache, batch: FlatBatch, reading: Reading, tables: Tensor, block_size: int
    ) -> None:
        num_columns = -(-reach_of(batch.longest) // block_size)
        self.address = tables[batch.rows, :num_columns]  # int32 [S, columns]
        blocks = self.address[batch.sequence_of, batch.positions // block_size].long()
        super().__init__(cache, batch, reading, blocks * block_size + batch.positions % block_size)

    def kv(self, stored: Stored, sequences: slice) -> KV:
        return PagedKV(stored, self.address[sequences])


class ContiguousAttend(StepAttend):
    """Writes and reads ranges; `ranges` is int64 [max_rows, 3] and has each start in its first column."""

    def __init__(self, cache: Cache, batch: FlatBatch, reading: Reading, ranges: Tensor) -> None:
        self.address = ranges[batch.rows, 0]  # int64 [S]
        super().__init__(cache, batch, reading, self.address[batch.sequence_of] + batch.positions)

    def kv(self, stored: Stored, sequences: slice) -> KV:
        return ContiguousKV(stored, self.address[sequences], self.reach)
