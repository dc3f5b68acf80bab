"""The contiguous KV arena: one range of slots per sequence, as servers reserved it before paging.

    storage [num_layers, 2, num_slots, HKV, D]
    ranges  int64 [max_rows, 3]: start, end of what was asked for, end of what is held

Rows of `ranges` that belong to nobody are EMPTY.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.attend import StepAttend
from engine.attention import contiguous_attention, contiguous_prefill, write_kv
from engine.flat import FlatBatch
from engine.probe import EMPTY, Holdings
from engine.sentinel import fill, new_pool, scan_vectors
from sim.events import Event
from sim.models import ModelSpec
from sim.replay import BlockTable, SlotRange


class ContiguousArena:
    """Keys and values in one array of slots, and which range each sequence has."""

    def __init__(
        self, spec: ModelSpec, *, num_slots: int, max_rows: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        shape = (spec.num_layers, 2, num_slots, spec.num_kv_heads, spec.head_dim)
        self.num_slots = num_slots
        self.dtype = dtype
        self.device = device
        self.storage = new_pool(shape, dtype, device)
        self.ranges = torch.full((max_rows, 3), EMPTY, dtype=torch.int64, device=device)
        self.rows: dict[str, int] = {}
        self._free_rows = list(range(max_rows - 1, -1, -1))

    @property
    def num_bytes(self) -> int:
        """Bytes of all slots on the device."""
        return self.storage.nbytes

    def keys(self, layer: int) -> Tensor:
        """A view [num_slots, HKV, D]."""
        return self.storage[layer, 0]

    def values(self, layer: int) -> Tensor:
        """A view [num_slots, HKV, D]."""
        return self.storage[layer, 1]

    def alloc(self, request: str, event: Event) -> None:
        """Gives the request a row with its range."""
        row = self.rows[request] = self._free_rows.pop()
        start, length = event.changes["slots"]
        entry = [start, start + event.changes["reserved"], start + length]
        self.ranges[row] = torch.tensor(entry, device=self.device)

    def free(self, request: str, event: Event) -> None:
        """Empties the request's row and fills its range with the sentinel."""
        row = self.rows.pop(request)
        self._free_rows.append(row)
        self.ranges[row] = EMPTY
        start, length = event.changes["slots"]
        fill(self.storage.movedim(2, 0), torch.arange(start, start + length, device=self.device))

    def swap_out(self, event: Event) -> None:
        """Never happens: nothing outgrows a reservation, so nothing is preempted."""
        raise AssertionError("a reservation made in full at admission is never swapped")

    def swap_in(self, event: Event) -> None:
        """Never happens: see `swap_out`."""
        raise AssertionError("a reservation made in full at admission is never swapped")

    def flush(self) -> None:
        """Nothing to do: every range was written when it was allocated."""

    def bind(self, batch: FlatBatch, backend: str) -> "ContiguousAttend":
        """The arena as one step's attention sees it."""
        return ContiguousAttend(self, batch, backend)

    def scan(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """See `Observable.scan`."""
        return scan_vectors(self.storage, slot_dims=(2,))  # [num_layers, 2, num_slots, HKV, D]

    def holdings(self) -> Holdings:
        """Who holds each slot, from the table tensor."""
        ranges = self.ranges.cpu().numpy()
        owner = np.full(self.num_slots, EMPTY, dtype=np.int64)
        position = np.zeros_like(owner)
        rows = np.flatnonzero(ranges[:, 0] != EMPTY)
        for row in rows:
            start, _, end = ranges[row]
            owner[start:end] = row
            position[start:end] = np.arange(end - start)
        num_held = int((ranges[rows, 2] - ranges[rows, 0]).sum())
        num_shared = num_held - int((owner != EMPTY).sum())
        return Holdings(owner, position, ranges[:, 1] - ranges[:, 0], num_shared)

    def block_tables(self) -> dict[str, BlockTable]:
        """Each request's row, read back from the table tensor."""
        ranges = self.ranges.cpu().numpy().tolist()
        tables: dict[str, BlockTable] = {}
        for request, row in self.rows.items():
            start, reserved_end, held_end = ranges[row]
            tables[request] = SlotRange(start, held_end - start, reserved_end - start)
        return tables


class ContiguousAttend(StepAttend):
    """Writes and reads an arena through the ranges of one step."""

    def __init__(self, arena: ContiguousArena, batch: FlatBatch, backend: str) -> None:
        super().__init__(batch, arena.dtype)
        self._arena = arena
        self._backend = backend
        self._starts = arena.ranges[batch.rows, 0]  # int64 [S]
        self._slots = self._starts[batch.sequence_of] + batch.positions  # int64 [T]

    def store(self, layer: int, key: Tensor, value: Tensor) -> None:
        """Writes the keys and values of all tokens of the step."""
        keys, values = self._arena.keys(layer), self._arena.values(layer)
        write_kv(key, value, keys, values, self._slots)

    def decode(self, layer: int, query: Tensor, out: Tensor) -> None:
        """Attention of the decodes, one query each, into `out`."""
        keys, values, n = self._arena.keys(layer), self._arena.values(layer), self.batch.num_decodes
        starts, seq_lens = self._starts[:n], self.batch.seq_lens[:n]
        contiguous_attention(query, keys, values, starts, seq_lens, out=out, backend=self._backend)

    def prefill(self, layer: int, query: Tensor, out: Tensor) -> None:
        """Attention of the prefill chunks, into `out`."""
        keys, values, n = self._arena.keys(layer), self._arena.values(layer), self.batch.num_decodes
        starts, seq_lens = self._starts[n:], self.batch.seq_lens[n:]
        loc = self.batch.prefill_starts
        contiguous_prefill(query, keys, values, starts, seq_lens, loc, out=out, backend=self._backend)
