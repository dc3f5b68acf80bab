"""The event log: everything that happens to memory and requests, in one total order.

Behaviour emits events; metrics, ledger series, pictures, exports and the engine fold over them.
The fields of each kind (all optional ones live in `changes`):

    kind      changes
    arrive    prompt, max_tokens
    reject    needed, available            (slots or blocks, named in `why`)
    admit     tokens                       input tokens to prefill
    alloc     blocks                       paged: physical ids appended to the block table
              slots, reserved              contiguous: [start, length] placed, of which `reserved` asked for
    prefill   tokens, stored, emitted      a prompt or a chunk of it; state after the step
    decode    stored, emitted              one token; state after the step
    preempt   mode, stored, emitted        recompute or swap; state that is given up
    swap_out  blocks, host_blocks          copies device to host; a `free` of the same blocks follows
    swap_in   blocks, host_blocks          copies host to device; an `alloc` of the same blocks came before
    free      blocks | slots               released, in the order in which they enter the free list
    finish    emitted
    step      duration, tokens, batch, running, waiting, swapped, ledger   closes the step

`alloc` and `free` alone define block tables; `swap_*` move data and change no table.
Order is `(time, step, phase, serial)`: serial is the place in the log. Memory events of a step carry
the time at which it starts, `prefill`, `decode`, `step`, `finish` the time at which it ends.
"""

from collections.abc import Iterable, Iterator
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

    def decodes(self, sequences: Iterable[Sequence]) -> None:
        """A `decode` event for each, which is the only one of its request: most of what a log holds."""
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

    def decodes(self, sequences: Iterable[Sequence]) -> None:
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

    def decodes(self, sequences: Iterable[Sequence]) -> None:
        sequences = list(sequences)
        for sink in self.sinks:
            sink.decodes(sequences)


class EventLog:
    """Keeps all events in memory, in order."""

    def __init__(self) -> None:
        self.step = 0
        self.time = 0.0
        self.events: list[Event] = []

    def emit(self, kind: Kind, request: str | None, why: str, **changes: Any) -> None:
        self.events.append(Event(kind, self.step, self.time, request, changes, why))

    def decodes(self, sequences: Iterable[Sequence]) -> None:
        for sequence in sequences:
            state = {"stored": sequence.stored, "emitted": sequence.emitted}
            self.emit(Kind.DECODE, sequence.request.id, decode_why(sequence.emitted), **state)

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)
