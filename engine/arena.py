"""The contiguous KV arena: one range of slots per sequence, as servers reserved it before paging.

    storage [num_layers, 2, num_slots, HKV, D]; codes have scales [num_layers, 2, num_slots, HKV] beside them
    ranges  int64 [max_rows, 3]: start, end of what was asked for, end of what is held

Rows of `ranges` that belong to nobody are EMPTY. Ranges may grow in place, move (with `grow` and `slab`,
or when the pool is compacted), and be copied from one sequence of a request to another.
"""

import numpy as np
import torch
from numpy.typing import NDArray

from engine.attend import ContiguousAttend, Reading
from engine.attention.kv import Stored
from engine.flat import FlatBatch
from engine.holdings import Holdings
from engine.quantized import layers_of, new_slots
from engine.sentinel import bits_of, fill, scan_parts
from engine.snapshot import EMPTY, RangeRows
from sim.events import Event
from sim.models import ModelSpec
from sim.tables import BlockTable


class ContiguousArena:
    """Keys and values in one array of slots, and which range each sequence has."""

    def __init__(
        self,
        spec: ModelSpec,
        *,
        num_slots: int,
        max_rows: int,
        dtype: torch.dtype,
        device: torch.device,
        fills_rounding: bool = False,
        is_marked: bool = True,
    ) -> None:
        """`fills_rounding`: a sequence goes on into what its placement rounded up (`grow`, `slab`)."""
        shape = (spec.num_layers, 2, num_slots, spec.num_kv_heads, spec.head_dim)
        self.num_slots = num_slots
        self.dtype = dtype
        self.device = device
        self._parts = new_slots(shape, dtype, device, is_marked=is_marked)
        self.storage = self._parts[0]
        self._layers = layers_of(self._parts, layer_dim=0)
        self.ranges = torch.full((max_rows, 3), EMPTY, dtype=torch.int64, device=device)
        self.rows: dict[str, int] = {}
        self._starts: dict[str, int] = {}
        self._free_rows = list(range(max_rows - 1, -1, -1))
        self._exchanges: list[tuple[int, int, int]] = []  # source, destination, tokens: not done yet
        self._fills_rounding = fills_rounding

    @property
    def num_bytes(self) -> int:
        """Bytes of all slots on the device."""
        return sum(part.nbytes for part in self._parts)

    def stored(self, layer: int) -> Stored:
        """Views [num_slots, HKV, D], and of codes the scales' [num_slots, HKV]."""
        return self._layers[layer]

    # Memory events, in the order of the log. `name` is the sequence that is meant.

    def alloc(self, name: str, event: Event) -> None:
        """Gives the sequence a row with its range, or makes that longer."""
        if name not in self.rows:
            self.rows[name] = self._free_rows.pop()
        start, length = event.changes["slots"]
        self._set_range(name, start, length, event.changes["reserved"])

    def free(self, name: str, event: Event) -> None:
        """Empties the row and fills its range with the sentinel."""
        self.settle()
        row = self.rows.pop(name)
        del self._starts[name]
        self._free_rows.append(row)
        self.ranges[row] = EMPTY
        start, length = event.changes["slots"]
        self._fill(start, start + length)

    def copy(self, name: str, event: Event) -> None:
        """One sequence goes on from what another has stored; all such copies read before any writes."""
        source, num_tokens = event.changes["source_slots"]
        self._exchanges.append((source, event.changes["destination_slots"][0], num_tokens))

    def move(self, name: str, event: Event) -> None:
        """The first tokens of a range go to another, which may overlap it; what they leave is empty."""
        self.settle()
        changes = event.changes
        (old, old_length), (new, new_length) = changes["source_slots"], changes["destination_slots"]
        kept = changes["tokens"]
        for bits in map(bits_of, self._parts):
            bits[:, :, new : new + kept] = bits[:, :, old : old + kept].clone()  # memmove
        end = new + kept
        self._fill(end, new + new_length)
        self._fill(old, min(old + old_length, new))
        self._fill(max(old, end), old + old_length)
        self._set_range(name, new, new_length, changes["reserved"])

    def settle(self) -> None:
        """Does the copies that wait, each as one run of slots."""
        for bits in map(bits_of, self._parts) if self._exchanges else ():
            staged = [bits[:, :, source : source + count].clone() for source, _, count in self._exchanges]
            for (_, destination, count), run in zip(self._exchanges, staged, strict=True):
                bits[:, :, destination : destination + count] = run
        self._exchanges = []

    def flush(self) -> None:
        """Brings memory up to date with all events so far; ranges are written as they change."""
        self.settle()

    def first_place(self, name: str) -> int:
        """The first slot of a sequence: by it a copy says which one it reads."""
        return self._starts[name]

    def hit(self, name: str, event: Event) -> None:
        """Never happens: prefixes are shared by the block."""
        raise AssertionError(f"{name}: a range shares nothing")

    fork = evict = rollback = hit

    def swap_out(self, name: str, event: Event) -> None:
        """Never happens: ranges are recomputed instead."""
        raise AssertionError(f"{name}: ranges do not swap")

    swap_in = swap_out

    def bind(self, batch: FlatBatch, reading: Reading) -> ContiguousAttend:
        """The arena as one step's attention sees it."""
        return ContiguousAttend(self, batch, reading, self.ranges)

    # What the probe sees.

    def scan(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """See `Observable.scan`."""
        return scan_parts(self._parts, slot_dims=(2,))  # [num_layers, 2, num_slots, HKV, ...]

    def holdings(self) -> Holdings:
        """Who holds each slot, from the table tensor."""
        ranges = self.ranges.cpu().numpy()
        rows = np.flatnonzero(ranges[:, 0] != EMPTY)
        starts, lengths = ranges[rows, 0], ranges[rows, 2] - ranges[rows, 0]
        first = np.cumsum(lengths) - lengths  # entry at which each row begins
        position = np.arange(int(lengths.sum())) - np.repeat(first, lengths)
        slot = np.repeat(starts, lengths) + position
        return Holdings(
            num_slots=self.num_slots,
            slot=slot,
            row=np.repeat(rows, lengths),
            position=position,
            num_asked=ranges[:, 1] - ranges[:, 0],
            fills_rounding=self._fills_rounding,
            num_shared=len(slot) - len(np.unique(slot)),
        )

    def cached_slots(self) -> NDArray[np.bool_]:
        """None: what nobody holds is empty."""
        return np.zeros(self.num_slots, dtype=np.bool_)

    def snapshot(self) -> RangeRows:
        """All ranges, read back from the table tensor."""
        return RangeRows(tuple(self.rows), self.ranges.cpu().numpy()[list(self.rows.values())])

    def block_tables(self) -> dict[str, BlockTable]:
        """Each sequence's range, read back from the table tensor."""
        return self.snapshot().as_dict()

    def _set_range(self, name: str, start: int, length: int, reserved: int) -> None:
        self._starts[name] = start
        entry = [start, start + reserved, start + length]
        self.ranges[self.rows[name]] = torch.tensor(entry, device=self.device)

    def _fill(self, start: int, end: int) -> None:
        if start < end:
            for part in self._parts:
                fill(part.movedim(2, 0), torch.arange(start, end, device=self.device))
