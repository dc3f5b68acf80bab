"""The paged KV pool: one tensor of blocks, and the block-table tensor that the kernels read.

Physical layout, block-major, so that one block is one contiguous run across all layers and a swap or
a copy moves it in one piece:

    storage [num_blocks, num_layers, 2, block_size, HKV, D]
    keys(layer), values(layer)  are views [num_blocks, block_size, HKV, D], whose blocks lie far apart

A table has one row per sequence, EMPTY where no block is. Rows follow the `alloc` and `free` events
and are never rebuilt: a step costs what changed in it, not what is held.
"""

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.attend import StepAttend
from engine.attention import paged_attention, paged_prefill, swap_blocks, write_kv
from engine.flat import FlatBatch, to_device
from engine.probe import EMPTY, Holdings
from engine.sentinel import fill, new_pool, scan_vectors
from sim.events import Event
from sim.models import ModelSpec
from sim.replay import BlockTable


@dataclass(slots=True)
class Row:
    """A sequence's row of the block-table tensor, and the blocks in it."""

    index: int
    blocks: list[int] = field(default_factory=list[int])


class PagedPool:
    """Keys and values in blocks, and where each sequence's blocks are."""

    def __init__(
        self,
        spec: ModelSpec,
        *,
        num_blocks: int,
        block_size: int,
        num_host_blocks: int,
        max_rows: int,
        max_len: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        block_shape = (spec.num_layers, 2, block_size, spec.num_kv_heads, spec.head_dim)
        self.block_size = block_size
        self.num_slots = num_blocks * block_size
        self.dtype = dtype
        self.device = device
        self.storage = new_pool((num_blocks, *block_shape), dtype, device)
        is_pinned = device.type == "cuda"
        self.host = new_pool((num_host_blocks, *block_shape), dtype, torch.device("cpu"), pinned=is_pinned)
        max_blocks = -(-max_len // block_size)
        self.tables = torch.full((max_rows, max_blocks), EMPTY, dtype=torch.int32, device=device)
        self._rows: dict[str, Row] = {}
        self._free_rows = list(range(max_rows - 1, -1, -1))
        self._changed: dict[tuple[int, int], int] = {}  # (row, column) -> block, not yet in `tables`

    @property
    def num_bytes(self) -> int:
        """Bytes of all slots on the device."""
        return self.storage.nbytes

    def keys(self, layer: int) -> Tensor:
        """A view [num_blocks, block_size, HKV, D]."""
        return self.storage[:, layer, 0]

    def values(self, layer: int) -> Tensor:
        """A view [num_blocks, block_size, HKV, D]."""
        return self.storage[:, layer, 1]

    @property
    def rows(self) -> dict[str, int]:
        """The table row of every request that holds blocks."""
        return {request: row.index for request, row in self._rows.items()}

    def alloc(self, request: str, event: Event) -> None:
        """Appends blocks to the request's row."""
        if request not in self._rows:
            self._rows[request] = Row(self._free_rows.pop())
        row = self._rows[request]
        for block in event.changes["blocks"]:
            self._changed[row.index, len(row.blocks)] = block
            row.blocks.append(block)

    def free(self, request: str, event: Event) -> None:
        """Takes blocks out of the request's row and fills them with the sentinel."""
        row, blocks = self._rows[request], event.changes["blocks"]
        assert set(blocks) <= set(row.blocks), f"{request} frees {blocks}, its row holds {row.blocks}"
        left = [block for block in row.blocks if block not in set(blocks)]
        columns = [*left, *[EMPTY] * (len(row.blocks) - len(left))]
        self._changed.update({(row.index, column): block for column, block in enumerate(columns)})
        row.blocks = left
        if not left:
            del self._rows[request]
            self._free_rows.append(row.index)
        fill(self.storage, torch.tensor(blocks, dtype=torch.int64, device=self.device))

    def swap_out(self, event: Event) -> None:
        """Copies blocks to host memory."""
        pairs = torch.tensor([event.changes["blocks"], event.changes["host_blocks"]], dtype=torch.int64).T
        swap_blocks([self.storage], [self.host], pairs)

    def swap_in(self, event: Event) -> None:
        """Copies blocks back, and fills the host's with the sentinel."""
        pairs = torch.tensor([event.changes["host_blocks"], event.changes["blocks"]], dtype=torch.int64).T
        swap_blocks([self.host], [self.storage], pairs)
        fill(self.host, pairs[:, 0])

    def flush(self) -> None:
        """Brings the block-table tensor up to date, in one transfer."""
        if not self._changed:
            return
        where = np.array(list(self._changed), dtype=np.int64)  # [changes, 2]
        blocks = np.array(list(self._changed.values()), dtype=np.int64)
        rows, columns, values = to_device([where[:, 0], where[:, 1], blocks], self.device)
        self.tables[rows, columns] = values.int()
        self._changed.clear()

    def bind(self, batch: FlatBatch, backend: str) -> "PagedAttend":
        """The pool as one step's attention sees it."""
        return PagedAttend(self, batch, backend)

    def scan(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """See `Observable.scan`."""
        return scan_vectors(self.storage, slot_dims=(0, 3))  # [num_blocks, num_layers, 2, block_size, HKV, D]

    def holdings(self) -> Holdings:
        """Who holds each slot, from the table tensor."""
        tables = self.tables.cpu().numpy()
        rows, columns = np.nonzero(tables != EMPTY)
        blocks = tables[rows, columns]
        owner = np.full((self.num_slots // self.block_size, self.block_size), EMPTY, dtype=np.int64)
        position = np.zeros_like(owner)
        owner[blocks] = rows[:, None]
        position[blocks] = columns[:, None] * self.block_size + np.arange(self.block_size)
        num_reserved = (tables != EMPTY).sum(axis=1) * self.block_size
        num_shared = len(blocks) - len(np.unique(blocks))
        return Holdings(owner.ravel(), position.ravel(), num_reserved, num_shared)

    def block_tables(self) -> dict[str, BlockTable]:
        """Each request's row, read back from the table tensor."""
        tables = self.tables.cpu().numpy()
        return {request: tables[row][tables[row] != EMPTY].tolist() for request, row in self.rows.items()}


class PagedAttend(StepAttend):
    """Writes and reads a paged pool through the block tables of one step."""

    def __init__(self, pool: PagedPool, batch: FlatBatch, backend: str) -> None:
        super().__init__(batch, pool.dtype)
        self._pool = pool
        self._backend = backend
        self._tables = pool.tables[batch.rows]  # int32 [S, max_blocks]
        size = pool.block_size
        blocks = self._tables[batch.sequence_of, batch.positions // size].long()
        self._slots = blocks * size + batch.positions % size  # int64 [T]

    def store(self, layer: int, key: Tensor, value: Tensor) -> None:
        """Writes the keys and values of all tokens of the step."""
        keys, values = self._pool.keys(layer), self._pool.values(layer)
        write_kv(key, value, keys, values, self._slots)

    def decode(self, layer: int, query: Tensor, out: Tensor) -> None:
        """Attention of the decodes, one query each, into `out`."""
        keys, values, n = self._pool.keys(layer), self._pool.values(layer), self.batch.num_decodes
        tables, seq_lens = self._tables[:n], self.batch.seq_lens[:n]
        paged_attention(query, keys, values, tables, seq_lens, out=out, backend=self._backend)

    def prefill(self, layer: int, query: Tensor, out: Tensor) -> None:
        """Attention of the prefill chunks, into `out`."""
        keys, values, n = self._pool.keys(layer), self._pool.values(layer), self.batch.num_decodes
        tables, seq_lens, starts = self._tables[n:], self.batch.seq_lens[n:], self.batch.prefill_starts
        paged_prefill(query, keys, values, tables, seq_lens, starts, out=out, backend=self._backend)
