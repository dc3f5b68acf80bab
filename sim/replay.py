"""The event log as a picture: every block table and queue at any step, from the log alone.

A keyframe every `KEYFRAME_STEPS` steps makes stepping back as cheap as stepping forward.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from collections.abc import Sequence as Listing
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim.errors import InputError
from sim.events import Event, Kind

KEYFRAME_STEPS = 64


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
        return dict(Counter(block for table in tables for block in table))

    def slots(self, sequence: str, block_size: int) -> NDArray[np.int64]:
        """Physical slots of the sequence's stored tokens, by position: int64 [stored]."""
        table = self.block_tables[sequence]
        positions = np.arange(self.stored.get(sequence, 0), dtype=np.int64)
        if isinstance(table, SlotRange):
            return table.start + positions
        blocks = np.asarray(table, dtype=np.int64)
        return blocks[positions // block_size] * block_size + positions % block_size

    def written(self, num_slots: int, block_size: int) -> NDArray[np.bool_]:
        """Which slots of the pool hold keys and values: bool [num_slots]."""
        mask = np.zeros(num_slots, dtype=np.bool_)
        for sequence in self.block_tables:
            mask[self.slots(sequence, block_size)] = True
        for block in self.cached:
            mask[block * block_size : (block + 1) * block_size] = True
        return mask

    def apply(self, event: Event) -> None:
        """Changes the state as the event says."""
        _FOLD.get(event.kind, _ignore)(self, event.request or "", event.changes)
        self.step, self.time = event.step, event.time

    def leave(self, request: str, queue: list[str]) -> None:
        """Takes the request out of a queue in which it must be."""
        queue.remove(request)

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
    state.leave(request, state.waiting)


def _admit(state: State, request: str, changes: Changes) -> None:
    state.leave(request, state.waiting)
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
    state.stored[child] = state.stored[parent]
    state.emitted[child] = state.emitted[parent]


def _copy(state: State, request: str, changes: Changes) -> None:
    name = _name(state, request, changes)
    table = state.block_tables[name]
    if isinstance(table, SlotRange):
        state.stored[name] = changes["tokens"]
        return
    place = changes["place"]
    state.cached.pop(changes["destination"], None)
    state.block_tables[name] = [*table[:place], changes["destination"], *table[place + 1 :]]


def _free(state: State, request: str, changes: Changes) -> None:
    blocks = changes.get("blocks", [])
    state.cached.update(dict.fromkeys(changes.get("cached", ())))
    table = state.block_tables.get(_name(state, request, changes))
    if table is None:
        return
    gone = {*blocks, *changes.get("shared", ())}
    left = [block for block in table if block not in gone] if isinstance(table, list) else []
    if left:
        state.block_tables[_name(state, request, changes)] = left
    else:
        del state.block_tables[_name(state, request, changes)]


def _ran(state: State, request: str, changes: Changes) -> None:
    name = _name(state, request, changes)
    state.stored[name] = changes["stored"]
    state.emitted[name] = changes["emitted"]


def _preempt(state: State, request: str, changes: Changes) -> None:
    state.leave(request, state.running)
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
    state.leave(request, state.swapped)
    state.join(request, state.running)


def _finish(state: State, request: str, changes: Changes) -> None:
    state.leave(request, state.running)
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
    Kind.FREE: _free,
    Kind.PREFILL: _ran,
    Kind.DECODE: _ran,
    Kind.PREEMPT: _preempt,
    Kind.SWAP_OUT: _swap_out,
    Kind.SWAP_IN: _swap_in,
    Kind.FINISH: _finish,
    Kind.STEP: _step,
}


class Replay:
    """A log that can be looked at from any step. Building it reads the log once."""

    def __init__(self, events: Listing[Event]) -> None:
        self.events = events
        self._ends: list[int] = []  # index after each step's `step` event
        self._keyframes: list[tuple[int, State]] = [(0, State())]  # (index, state before that event)
        state = State()
        for index, event in enumerate(events):
            state.apply(event)
            if event.kind is Kind.STEP:
                self._ends.append(index + 1)
                if len(self._ends) % KEYFRAME_STEPS == 0:
                    self._keyframes.append((index + 1, state.copy()))

    @property
    def num_steps(self) -> int:
        return len(self._ends)

    def at(self, step: int) -> State:
        """The state after the writes of `step`; 0 is before anything. InputError outside the run."""
        self._check(step)
        start, keyframe = self._keyframes[step // KEYFRAME_STEPS]
        return self._fold(keyframe, self.events[start : self._ends[step - 1] if step else 0])

    def at_end(self) -> State:
        """The state once the last requests have left: nobody holds anything."""
        start, keyframe = self._keyframes[-1]
        return self._fold(keyframe, self.events[start:])

    def states(self) -> Iterator[State]:
        """The state of every step in order. Each is changed into the next: look, but do not keep."""
        state = State()
        for event in self.events:
            state.apply(event)
            if event.kind is Kind.STEP:
                yield state

    def events_of(self, step: int) -> Listing[Event]:
        """The events that led from the state of `step - 1` to that of `step`; none for step 0.

        Those by which finished requests leave a step come first among the events of the next one; after
        the last step they are `events_after_end`.
        """
        self._check(step)
        if step == 0:
            return []
        return self.events[self._ends[step - 2] if step > 1 else 0 : self._ends[step - 1]]

    def events_after_end(self) -> Listing[Event]:
        """The events after the last step's writes."""
        return self.events[self._ends[-1] if self._ends else 0 :]

    def _check(self, step: int) -> None:
        if not 0 <= step <= self.num_steps:
            recorded = f"the run has steps 1 to {self.num_steps}" if self._ends else "the run kept no events"
            raise InputError(f"step {step}: {recorded}")

    @staticmethod
    def _fold(keyframe: State, events: Listing[Event]) -> State:
        state = keyframe.copy()
        for event in events:
            state.apply(event)
        return state
