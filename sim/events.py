"""The event log: everything that happens to memory and requests, in one total order.

Behaviour emits events; metrics, ledger series, pictures, exports and the engine fold over them.
The fields of each kind (all live in `changes`; where a request has several sequences, `sequence` is the index
of the one that is meant, and without it all are):

    kind      changes
    arrive    prompt, max_tokens, width    width where it is above 1
    reject    needed, available            (slots or blocks, named in `why`)
    admit     tokens, hit                  input tokens to prefill, and those found in the prefix cache
    hit       blocks, tokens               the block table starts with these cached blocks; -1 is a hole
    alloc     blocks                       paged, virtual: ids appended to the block table, -1 is a hole
              slots, reserved              contiguous: [start, length] held from now on, `reserved` asked for;
                                           for a sequence that has a range already, it begins at the same slot
    prefill   tokens, stored, emitted      a prompt or a chunk of it; state after the step
    decode    stored, emitted              one token; state after the step
              drafts, accepted             when it speculated: `accepted` + 1 tokens
    rollback  drafts, accepted, positions  tokens [start, stop) of the sequence are no longer stored
    fork      parent, blocks, stored       the sequence's block table is this now, its stored tokens are these
    copy      source, destination, place, tokens      the shared block at `place` of the table was copied
    evict     blocks                       their cached content is lost; an `alloc` of them follows
    preempt   mode, stored, emitted        recompute or swap; state that is given up
    swap_out  blocks, host_blocks          copies device to host; a `free` of the same blocks follows
    swap_in   blocks, host_blocks          copies host to device; an `alloc` of the same blocks came before
    copy      source, destination, place, tokens   a shared block, before one owner writes; its table changes
              source_slots, destination_slots, tokens     [start, tokens] of one sequence's range to another's
              source_blocks, destination_blocks, tokens   the same for pages; no table changes
    move      source_slots, destination_slots, reserved, tokens   [start, length] given up and held instead;
                                           the first `tokens` are copied; the two may overlap (memmove)
    free      blocks | slots               released, in the order in which they enter the free list
              cached, shared               those of them that can be found again; those that others still hold
              places                       only these places of the table become holes; the rest stays
    finish    emitted
    step      duration, tokens, batch, running, waiting, swapped, ledger   closes the step

Of several sequences, `sequence` says which is meant. `alloc`, `hit`, `fork`, `copy`, `move` and `free`
define block tables; `swap_*` move data and change no table. Data moves in the order of the log: a `move`
never lands on what a later one still has to read. Only the whole-range copies of one request after a step,
by which beams change places, read what the step wrote: all of them before any writes.
Order is `(time, step, phase, serial)`: serial is the place in the log. Memory events of a step carry
the time at which it starts, `prefill`, `decode`, `step`, `finish` the time at which it ends.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from sim.request import Sequence


class Kind(StrEnum):
    """All kinds of events, in the contract's order."""

    ARRIVE = "arrive"
    REJECT = "reject"
    ADMIT = "admit"
    PREFILL = "prefill"
    DECODE = "decode"
    HIT = "hit"
    ALLOC = "alloc"
    FORK = "fork"
    COPY = "copy"
    FREE = "free"
    PREEMPT = "preempt"
    SWAP_OUT = "swap_out"
    SWAP_IN = "swap_in"
    EVICT = "evict"
    MOVE = "move"
    ROLLBACK = "rollback"
    FINISH = "finish"
    STEP = "step"


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened. `request` is None only for `step`."""

    kind: Kind
    step: int
    time: float
    request: str | None
    changes: dict[str, Any]
    why: str

    def as_json(self) -> dict[str, Any]:
        """The event as one flat JSON object."""
        head = {"kind": str(self.kind), "step": self.step, "time": self.time, "request": self.request}
        return {**head, **self.changes, "why": self.why}


class Sink(Protocol):
    """Where behaviour reports what it did. `step` and `time` are set by the loop alone."""

    @property
    def step(self) -> int: ...

    @step.setter
    def step(self, step: int) -> None: ...

    @property
    def time(self) -> float: ...

    @time.setter
    def time(self, time: float) -> None: ...

    def emit(self, kind: Kind, request: str | None, why: str, **changes: Any) -> None: ...

    def decodes(self, sequences: list[Sequence], stored: list[int], emitted: list[int]) -> None:
        """A `decode` event for each, which is the only one of its request: most of what a log holds.

        What they have stored and emitted stands beside them: the objects themselves may lag behind
        (`sim.columns`).
        """
        ...


def decode_why(emitted: int) -> str:
    """Why of a `decode` event."""
    return f"emits token {emitted}"


class NullLog:
    """Counts nothing, keeps nothing: for runs that only want the report."""

    step = 0
    time = 0.0

    def emit(self, kind: Kind, request: str | None, why: str, **changes: Any) -> None:
        """Drop the event."""

    def decodes(self, sequences: list[Sequence], stored: list[int], emitted: list[int]) -> None:
        """Drop them."""


class Tee:
    """Passes everything on to several sinks."""

    def __init__(self, *sinks: Sink) -> None:
        self.sinks = sinks
        self._step = 0
        self._time = 0.0

    @property
    def step(self) -> int:
        return self._step

    @step.setter
    def step(self, step: int) -> None:
        self._step = step
        for sink in self.sinks:
            sink.step = step

    @property
    def time(self) -> float:
        return self._time

    @time.setter
    def time(self, time: float) -> None:
        self._time = time
        for sink in self.sinks:
            sink.time = time

    def emit(self, kind: Kind, request: str | None, why: str, **changes: Any) -> None:
        for sink in self.sinks:
            sink.emit(kind, request, why, **changes)

    def decodes(self, sequences: list[Sequence], stored: list[int], emitted: list[int]) -> None:
        for sink in self.sinks:
            sink.decodes(sequences, stored, emitted)


class EventLog:
    """Keeps all events in memory, in order."""

    def __init__(self) -> None:
        self.step = 0
        self.time = 0.0
        self.events: list[Event] = []

    def emit(self, kind: Kind, request: str | None, why: str, **changes: Any) -> None:
        self.events.append(Event(kind, self.step, self.time, request, changes, why))

    def decodes(self, sequences: list[Sequence], stored: list[int], emitted: list[int]) -> None:
        for sequence, num_stored, num in zip(sequences, stored, emitted, strict=True):
            self.emit(Kind.DECODE, sequence.request.id, decode_why(num), stored=num_stored, emitted=num)

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)
