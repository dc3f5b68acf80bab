"""The paged KV pool: one tensor of blocks, and what memory events do to it.

Physical layout, block-major, so that one block is one contiguous run across all layers and a swap or
a copy moves it in one piece:

    storage        [num_blocks, num_layers, 2, block_size, HKV, D]; codes have scales, see engine.quantized
    stored(layer)  keys and values as views [num_blocks, block_size, HKV, D], whose blocks lie far apart

`paged` and `mixed` have blocks. `virtual` has pages in their place: where vAttention lets the GPU's page
table make a sequence contiguous, the kernels here read the same pages through a table of ours.
"""

from collections.abc import Iterable

import numpy as np
import torch
from numpy.typing import NDArray

from engine.attend import PagedAttend, Reading
from engine.attention.kv import Stored
from engine.blockwork import BlockWork
from engine.flat import FlatBatch
from engine.holdings import Holdings
from engine.quantized import layers_of, new_blocks
from engine.rows import TableRows
from engine.sentinel import scan_parts
from engine.snapshot import EMPTY, BlockRows
from engine.swap import HostBlocks
from sim.events import Event
from sim.models import ModelSpec
from sim.tables import BlockTable, real


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
        is_rounded_up: bool = False,
        is_marked: bool = True,
    ) -> None:
        """`is_rounded_up`: nobody asks for the blocks, so that what they leave empty for good is rounding."""
        block_shape = (spec.num_layers, 2, block_size, spec.num_kv_heads, spec.head_dim)
        self.block_size = block_size
        self.num_slots = num_blocks * block_size
        self.dtype = dtype
        self.device = device
        self.storage, self._parts = new_blocks(num_blocks, block_shape, dtype, device, is_marked=is_marked)
        self._layers = layers_of(self._parts, layer_dim=1)  # views, made once
        self.host = HostBlocks(self.storage, num_host_blocks)
        self.table = TableRows(max_rows, -(-max_len // block_size), device)
        self._work = BlockWork(self.storage, self._parts)
        self._cached: set[int] = set()  # blocks that nobody holds and that keep their content
        self._shareable: set[int] = set()  # blocks that events gave to several sequences
        self._is_rounded_up = is_rounded_up

    @property
    def num_bytes(self) -> int:
        """Bytes of all slots on the device."""
        return self.storage.nbytes

    @property
    def rows(self) -> dict[str, int]:
        """The table row of every sequence that holds blocks."""
        return self.table.index

    def stored(self, layer: int) -> Stored:
        """Views [num_blocks, block_size, HKV, D], and of codes the scales' [num_blocks, block_size, HKV]."""
        return self._layers[layer]

    # Memory events, in the order of the log. `name` is the sequence that is meant.

    def alloc(self, name: str, event: Event) -> None:
        """Appends blocks to the row."""
        self._cached.difference_update(event.changes["blocks"])
        self.table.extend(name, event.changes["blocks"])

    def hit(self, name: str, event: Event) -> None:
        """The row starts with blocks whose content was kept."""
        self._share(event.changes["blocks"])
        self.table.replace(name, event.changes["blocks"])

    def fork(self, name: str, event: Event) -> None:
        """The row is another one's from now on."""
        self._share(event.changes["blocks"])
        self.table.replace(name, event.changes["blocks"])

    def copy(self, name: str, event: Event) -> None:
        """A shared block before one owner writes; or pages, of which all copies read before any writes."""
        changes = event.changes
        if "place" not in changes:
            self._work.exchange(changes["source_blocks"], changes["destination_blocks"])
            return
        self._cached.discard(changes["destination"])
        self._work.copy(changes["source"], changes["destination"])
        self.table.put(name, changes["place"], changes["destination"])

    def free(self, name: str, event: Event) -> None:
        """Takes blocks out of the row. Those that nobody holds get the sentinel, unless they are cached."""
        changes = event.changes
        blocks, cached = changes["blocks"], changes.get("cached", ())
        self._check_held(name, blocks)
        self._cached.update(cached)
        self._shareable.difference_update(blocks)
        self._work.fill(block for block in blocks if block not in self._cached)
        if "places" in changes:
            for place in changes["places"]:
                self.table.put(name, place, EMPTY)
        elif name in self.table.index:  # else blocks that no beam of the request goes on from
            gone = {*blocks, *changes.get("shared", ())}
            left = [block for block in real(self.table.blocks[name]) if block not in gone]
            if left:
                self.table.replace(name, left)
            else:
                self.table.remove(name)

    def evict(self, name: str, event: Event) -> None:
        """Cached content is lost."""
        self._cached.difference_update(event.changes["blocks"])
        self._work.fill(event.changes["blocks"])

    def rollback(self, name: str, event: Event) -> None:
        """Drafts that were rejected are forgotten."""
        positions = np.arange(*event.changes["positions"])
        blocks = np.array(self.table.blocks[name])[positions // self.block_size]
        self._work.fill_slots(blocks, positions % self.block_size)

    def swap_out(self, name: str, event: Event) -> None:
        """Copies blocks to host memory."""
        self._work.settle()
        self.host.store(event.changes["blocks"], event.changes["host_blocks"])

    def swap_in(self, name: str, event: Event) -> None:
        """Copies blocks back, and fills the host's with the sentinel."""
        self._work.settle()
        self._shareable.update(event.changes["blocks"])
        self.host.restore(event.changes["host_blocks"], event.changes["blocks"])

    def move(self, name: str, event: Event) -> None:
        """Never happens: blocks stay where they are."""
        raise AssertionError(f"{name}: blocks do not move")

    def settle(self) -> None:
        """Does what was put off so that fills and copies go out together."""
        self._work.settle()

    def flush(self) -> None:
        """Brings memory and the table tensor up to date with all events so far."""
        self._work.settle()
        self.table.flush()

    def first_place(self, name: str) -> int:
        """The first block of a sequence: by it a copy says which one it reads."""
        return self.table.blocks[name][0]

    def bind(self, batch: FlatBatch, reading: Reading) -> PagedAttend:
        """The pool as one step's attention sees it."""
        return PagedAttend(self, batch, reading, self.table.tensor, self.block_size)

    # What the probe sees.

    def scan(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """See `Observable.scan`."""
        return scan_parts(self._parts, slot_dims=(0, 3))  # [num_blocks, num_layers, 2, block_size, HKV, ...]

    def holdings(self) -> Holdings:
        """Who holds each slot, from the table tensor."""
        tables = self.table.tensor.cpu().numpy()
        rows, columns = np.nonzero(tables >= 0)
        blocks = tables[rows, columns].astype(np.int64)
        size, offsets = self.block_size, np.arange(self.block_size)
        num_asked = np.full(len(tables), 0 if self._is_rounded_up else tables.shape[1] * size)
        return Holdings(
            num_slots=self.num_slots,
            slot=(blocks[:, None] * size + offsets).ravel(),
            row=np.repeat(rows, size),
            position=(columns[:, None] * size + offsets).ravel(),
            num_asked=num_asked,
            fills_rounding=self._is_rounded_up,
            num_shared=self._count_wrongly_shared(rows, blocks),
        )

    def cached_slots(self) -> NDArray[np.bool_]:
        """Slots that may be written though nobody holds them: bool [num_slots]."""
        mask = np.zeros((self.num_slots // self.block_size, self.block_size), dtype=np.bool_)
        mask[list(self._cached)] = True
        return mask.ravel()

    def snapshot(self) -> BlockRows:
        """All rows, read back from the table tensor."""
        return self.table.snapshot()

    def block_tables(self) -> dict[str, BlockTable]:
        """Each sequence's row, read back from the table tensor."""
        return self.snapshot().as_dict()

    def _share(self, blocks: list[int]) -> None:
        self._cached.difference_update(blocks)
        self._shareable.update(real(blocks))

    def _check_held(self, name: str, blocks: Iterable[int]) -> None:
        if name in self.table.index:
            held = self.table.blocks[name]
            assert set(blocks) <= set(held), f"{name} frees {blocks}, its row holds {held}"

    def _count_wrongly_shared(self, rows: NDArray[np.int64], blocks: NDArray[np.int64]) -> int:
        """Table entries with a second owner that no event made one; twice in one row is always wrong."""
        entries = blocks * (len(self.table.tensor) + 1) + rows
        num_twice = len(entries) - len(np.unique(entries))
        owners = np.bincount(blocks, minlength=1)
        several = np.flatnonzero(owners > 1)
        wrong = [block for block in several.tolist() if block not in self._shareable]
        return int((owners[wrong] - 1).sum()) + (num_twice if not wrong else 0)
