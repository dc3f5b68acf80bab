"""The paged KV pool: one tensor of blocks, and the block-table tensor that the kernels read.

Physical layout, block-major, so that one block is one contiguous run across all layers and a swap or
a copy moves it in one piece:

    storage [num_blocks, num_layers, 2, block_size, HKV, D]
    keys(layer), values(layer)  are views [num_blocks, block_size, HKV, D], whose blocks lie far apart

Tables hold one row per sequence, EMPTY where no block is. They follow the `alloc` and `free` events
and are never rebuilt, so a step costs what changed in it, not what is held.
"""

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.attention import paged_attention, paged_prefill, write_kv
from engine.flat import FlatBatch, to_device
from engine.sentinel import as_bits, is_written, new_pool
from sim.events import Event
from sim.models import ModelSpec

EMPTY = -1


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
        max_blocks_per_row: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        block_shape = (spec.num_layers, 2, block_size, spec.num_kv_heads, spec.head_dim)
        self.block_size = block_size
        self.num_slots = num_blocks * block_size
        self.device = device
        self.storage = new_pool((num_blocks, *block_shape), dtype, device)
        is_cuda = device.type == "cuda"
        self.host = new_pool((num_host_blocks, *block_shape), dtype, torch.device("cpu"), pinned=is_cuda)
        self.tables = torch.full((max_rows, max_blocks_per_row), EMPTY, dtype=torch.int32, device=device)
        self.rows: dict[str, Row] = {}
        self._free_rows = list(range(max_rows - 1, -1, -1))
        self._changed: dict[tuple[int, int], int] = {}  # (row, column) -> block, not yet in `tables`

    def keys(self, layer: int) -> Tensor:
        return self.storage[:, layer, 0]

    def values(self, layer: int) -> Tensor:
        return self.storage[:, layer, 1]

    def row_of(self) -> dict[str, int]:
        """The table row of every request that holds blocks."""
        return {request: row.index for request, row in self.rows.items()}

    # The four memory events. The executor calls them in the log's order.

    def alloc(self, event: Event) -> None:
        """Appends blocks to the request's row."""
        assert event.request is not None
        row = self.rows.get(event.request)
        if row is None:
            row = self.rows[event.request] = Row(self._free_rows.pop())
        for block in event.changes["blocks"]:
            self._changed[row.index, len(row.blocks)] = block
            row.blocks.append(block)

    def free(self, event: Event) -> None:
        """Empties the request's row and fills its blocks with the sentinel."""
        assert event.request is not None
        row = self.rows.pop(event.request)
        blocks = event.changes["blocks"]
        assert sorted(blocks) == sorted(row.blocks), f"{event.request} frees {blocks}, its row holds {row.blocks}"
        self._changed.update({(row.index, column): EMPTY for column in range(len(row.blocks))})
        self._free_rows.append(row.index)
        if blocks:
            bits, code = as_bits(self.storage)
            bits.index_fill_(0, self._ids(blocks), code)

    def swap_out(self, event: Event) -> None:
        """Copies blocks to host memory."""
        blocks, host_blocks = self._ids(event.changes["blocks"]), torch.tensor(event.changes["host_blocks"])
        self.host[host_blocks] = self.storage[blocks].to("cpu")

    def swap_in(self, event: Event) -> None:
        """Copies blocks back and fills the host's with the sentinel."""
        blocks, host_blocks = self._ids(event.changes["blocks"]), torch.tensor(event.changes["host_blocks"])
        self.storage[blocks] = self.host[host_blocks].to(self.device)
        bits, code = as_bits(self.host)
        bits.index_fill_(0, host_blocks, code)

    def flush_tables(self) -> None:
        """Writes what changed since the last call into the block-table tensor, in one transfer."""
        if not self._changed:
            return
        where = np.array(list(self._changed), dtype=np.int64)  # [changes, 2]
        blocks = np.fromiter(self._changed.values(), np.int64, len(self._changed))
        rows, columns, values = to_device([where[:, 0], where[:, 1], blocks], self.device)
        self.tables[rows, columns] = values.int()
        self._changed.clear()

    def bind(self, batch: FlatBatch, backend: str) -> "PagedAttend":
        """The cache as one step's attention sees it."""
        return PagedAttend(self, batch, backend)

    # What the probe reads: memory and tables as they are, no books.

    def written(self) -> Tensor:
        """bool [num_layers, 2, num_slots, HKV]: whether a head's vector was written, by its first element."""
        first = is_written(self.storage[..., 0])  # [num_blocks, num_layers, 2, block_size, HKV]
        return first.permute(1, 2, 0, 3, 4).flatten(2, 3)

    def owners(self) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]:
        """From the block-table tensor: each slot's row (EMPTY if none), its position there, and the
        slots that each row reserves (for a paged pool all that it holds)."""
        tables = self.tables.cpu().numpy()
        rows, columns = np.nonzero(tables != EMPTY)
        blocks = tables[rows, columns]
        owner = np.full((self.num_slots // self.block_size, self.block_size), EMPTY, dtype=np.int32)
        position = np.zeros_like(owner)
        owner[blocks] = rows[:, None]
        position[blocks] = columns[:, None] * self.block_size + np.arange(self.block_size)
        num_reserved = (tables != EMPTY).sum(axis=1) * self.block_size
        return owner.ravel(), position.ravel(), num_reserved

    def block_tables(self) -> dict[str, list[int]]:
        """Every request's row, read back from the tensor."""
        tables = self.tables.cpu().numpy()
        return {
            request: [int(block) for block in tables[row.index] if block != EMPTY]
            for request, row in self.rows.items()
        }

    def _ids(self, blocks: list[int]) -> Tensor:
        return torch.tensor(blocks, dtype=torch.int64, device=self.device)


class PagedAttend:
    """Writes and reads the pool through one step's block tables."""

    def __init__(self, pool: PagedPool, batch: FlatBatch, backend: str) -> None:
        self._pool = pool
        self._batch = batch
        self._backend = backend
        self._tables = pool.tables[batch.rows]  # int32 [S, max_blocks]
        self._slots = self._slot_mapping()

    def _slot_mapping(self) -> Tensor:
        """The slot of each token, int64 [T], looked up in the block tables."""
        batch, size = self._batch, self._pool.block_size
        blocks = self._tables[batch.sequence_of, batch.positions // size].long()
        return blocks * size + batch.positions % size

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        batch, backend = self._batch, self._backend
        keys, values = self._pool.keys(layer), self._pool.values(layer)
        dtype = keys.dtype
        write_kv(key.to(dtype), value.to(dtype), keys, values, self._slots, backend=backend)
        query = query.to(dtype)
        out = torch.empty_like(query)
        n = batch.num_decodes
        if n > 0:
            out[:n] = paged_attention(
                query[:n], keys, values, self._tables[:n], batch.seq_lens[:n], backend=backend
            )
        if n < len(query):
            out[n:] = paged_prefill(
                query[n:], keys, values, self._tables[n:], batch.seq_lens[n:], batch.prefill_starts, backend=backend
            )
        return out.to(key.dtype)
