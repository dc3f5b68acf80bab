"""What holds at one moment, folded from the event log: block tables, queues, stored tokens."""

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sim.events import Event
from sim.fold import FOLD, ignore
from sim.tables import HOLE, BlockTable, SlotRange, real


@dataclass(slots=True)
class State:
    """What holds after the writes of a step and before finished requests leave. Treat it as read-only.

    Queues name requests by id, in the scheduler's order. Tables and counts name sequences: by the id of
    their request, with `/index` where it has several.
    """

    step: int = 0
    time: float = 0.0
    block_tables: dict[str, BlockTable] = field(default_factory=dict[str, BlockTable])
    host_tables: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    stored: dict[str, int] = field(default_factory=dict[str, int])
    emitted: dict[str, int] = field(default_factory=dict[str, int])
    waiting: list[str] = field(default_factory=list[str])
    running: list[str] = field(default_factory=list[str])
    swapped: list[str] = field(default_factory=list[str])
    ledger: dict[str, int] = field(default_factory=dict[str, int])
    cached: dict[int, None] = field(default_factory=dict[int, None])  # free blocks that can be found again
    order: dict[str, int] = field(default_factory=dict[str, int])  # who arrived when
    width: dict[str, int] = field(default_factory=dict[str, int])  # sequences, of requests with several

    def copy(self) -> "State":
        """An independent state. Block tables are never changed in place, so they are shared."""
        return State(
            self.step,
            self.time,
            dict(self.block_tables),
            dict(self.host_tables),
            dict(self.stored),
            dict(self.emitted),
            list(self.waiting),
            list(self.running),
            list(self.swapped),
            self.ledger,
            dict(self.cached),
            self.order,
            self.width,
        )

    def names(self, request: str) -> list[str]:
        """The request's sequences."""
        width = self.width.get(request, 1)
        return [request] if width == 1 else [f"{request}/{index}" for index in range(width)]

    def ref_counts(self) -> dict[int, int]:
        """How many block tables each block stands in."""
        tables = (table for table in self.block_tables.values() if isinstance(table, list))
        return dict(Counter(block for table in tables for block in real(table)))

    def num_written(self, sequence: str) -> int:
        """Stored tokens whose keys and values are there (`sim.request.SequenceGroup.num_written`)."""
        request, stored = sequence.rpartition("/")[0], self.stored.get(sequence, 0)
        return min(stored, self.stored[f"{request}/0"]) if request in self.width else stored

    def slots(self, sequence: str, block_size: int) -> NDArray[np.int64]:
        """Physical slots of the sequence's written tokens, by position: int64 [num_written]; -1 in a hole."""
        table = self.block_tables[sequence]
        positions = np.arange(self.num_written(sequence), dtype=np.int64)
        if isinstance(table, SlotRange):
            return table.start + positions
        blocks = np.asarray(table, dtype=np.int64)[positions // block_size]
        return np.where(blocks == HOLE, HOLE, blocks * block_size + positions % block_size)

    def written(self, num_slots: int, block_size: int) -> NDArray[np.bool_]:
        """Which slots of the pool hold keys and values: bool [num_slots]."""
        mask = np.zeros(num_slots, dtype=np.bool_)
        for sequence in self.block_tables:
            slots = self.slots(sequence, block_size)
            mask[slots[slots != HOLE]] = True
        for block in self.cached:
            mask[block * block_size : (block + 1) * block_size] = True
        return mask

    def apply(self, event: Event) -> None:
        """Changes the state as the event says."""
        FOLD.get(event.kind, ignore)(self, event.request or "", event.changes)
        self.step, self.time = event.step, event.time

    def join(self, request: str, queue: list[str]) -> None:
        """Puts the request into a queue that is kept by age."""
        ages = [self.order[other] for other in queue]
        queue.insert(bisect_right(ages, self.order[request]), request)
