"""What holds at one moment, folded from the event log: block tables, queues, stored tokens."""

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim.events import Event, Kind
from sim.tables import HOLE, real


class SlotRange(NamedTuple):
    """A contiguous allocator's block table: slots `[start, start + length)`, `reserved` of them asked for."""

    start: int
    length: int
    reserved: int


BlockTable = list[int] | SlotRange


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
        _FOLD.get(event.kind, _ignore)(self, event.request or "", event.changes)
        self.step, self.time = event.step, event.time

    def join(self, request: str, queue: list[str]) -> None:
        """Puts the request into a queue that is kept by age."""
        ages = [self.order[other] for other in queue]
        queue.insert(bisect_right(ages, self.order[request]), request)


Changes = dict[str, Any]


def _ignore(state: State, request: str, changes: Changes) -> None:
    pass


def _name(state: State, request: str, changes: Changes) -> str:
    return f"{request}/{changes['sequence']}" if "sequence" in changes else request


def _arrive(state: State, request: str, changes: Changes) -> None:
    # Keyframes share `order`: replaying must not renumber.
    state.order.setdefault(request, len(state.order))
    if "width" in changes:
        state.width[request] = changes["width"]
    state.waiting.append(request)


def _reject(state: State, request: str, changes: Changes) -> None:
    state.waiting.remove(request)


def _admit(state: State, request: str, changes: Changes) -> None:
    state.waiting.remove(request)
    state.join(request, state.running)
    first = state.names(request)[0]
    state.stored[first] = changes["hit"]
    state.emitted.setdefault(first, 0)


def _alloc(state: State, request: str, changes: Changes) -> None:
    name = _name(state, request, changes)
    if "slots" in changes:
        start, length = changes["slots"]
        state.block_tables[name] = SlotRange(start, length, changes["reserved"])
        return
    for block in changes["blocks"]:
        state.cached.pop(block, None)
    state.block_tables[name] = [*state.block_tables.get(name, ()), *changes["blocks"]]


def _hit(state: State, request: str, changes: Changes) -> None:
    for block in changes["blocks"]:
        state.cached.pop(block, None)
    state.block_tables[_name(state, request, changes)] = changes["blocks"]


def _fork(state: State, request: str, changes: Changes) -> None:
    child, parent = _name(state, request, changes), f"{request}/{changes['parent']}"
    state.block_tables[child] = changes["blocks"]
    state.stored[child] = changes["stored"]
    state.emitted[child] = state.emitted[parent]


def _copy(state: State, request: str, changes: Changes) -> None:
    name = _name(state, request, changes)
    table = state.block_tables[name]
    if "place" not in changes:  # all that the other sequence has stored
        state.stored[name] = changes["tokens"]
        state.emitted[name] = state.emitted[state.names(request)[0]]  # in step with its siblings
        return
    assert isinstance(table, list)
    place = changes["place"]
    state.cached.pop(changes["destination"], None)
    state.block_tables[name] = [*table[:place], changes["destination"], *table[place + 1 :]]


def _move(state: State, request: str, changes: Changes) -> None:
    start, length = changes["destination_slots"]
    state.block_tables[_name(state, request, changes)] = SlotRange(start, length, changes["reserved"])


def _free(state: State, request: str, changes: Changes) -> None:
    blocks = changes.get("blocks", [])
    state.cached.update(dict.fromkeys(changes.get("cached", ())))
    name = _name(state, request, changes)
    table = state.block_tables.get(name)
    if isinstance(table, list) and "places" in changes:
        holes = set(changes["places"])
        state.block_tables[name] = [HOLE if at in holes else block for at, block in enumerate(table)]
        return
    if table is None:  # blocks that no beam of the request goes on from
        return
    gone = {HOLE, *blocks, *changes.get("shared", ())}
    left = [block for block in table if block not in gone] if isinstance(table, list) else []
    if left:
        state.block_tables[name] = left
    else:
        del state.block_tables[name]


def _ran(state: State, request: str, changes: Changes) -> None:
    name = _name(state, request, changes)
    state.stored[name] = changes["stored"]
    state.emitted[name] = changes["emitted"]


def _preempt(state: State, request: str, changes: Changes) -> None:
    state.running.remove(request)
    if changes["mode"] == "swap":
        state.join(request, state.swapped)
        return
    for name in state.names(request):
        if name in state.stored:
            state.stored[name] = 0
    state.waiting.insert(0, request)


def _swap_out(state: State, request: str, changes: Changes) -> None:
    state.host_tables[request] = changes["host_blocks"]


def _swap_in(state: State, request: str, changes: Changes) -> None:
    del state.host_tables[request]
    state.swapped.remove(request)
    state.join(request, state.running)


def _finish(state: State, request: str, changes: Changes) -> None:
    state.running.remove(request)
    for name in state.names(request):
        state.stored.pop(name, None)
        state.emitted.pop(name, None)


def _step(state: State, request: str, changes: Changes) -> None:
    state.ledger = changes["ledger"]


_FOLD = {
    Kind.ARRIVE: _arrive,
    Kind.REJECT: _reject,
    Kind.ADMIT: _admit,
    Kind.ALLOC: _alloc,
    Kind.HIT: _hit,
    Kind.FORK: _fork,
    Kind.COPY: _copy,
    Kind.MOVE: _move,
    Kind.FREE: _free,
    Kind.PREFILL: _ran,
    Kind.DECODE: _ran,
    Kind.PREEMPT: _preempt,
    Kind.SWAP_OUT: _swap_out,
    Kind.SWAP_IN: _swap_in,
    Kind.FINISH: _finish,
    Kind.STEP: _step,
}
