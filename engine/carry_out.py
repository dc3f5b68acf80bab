"""Memory events become copies and table entries, one after another, in the order of the log.

The order of the log is the order of the device. Blocks freed by one sequence may be given to the next
within one schedule, so all events of a schedule are carried out before its step writes:

    swap_out         copy to host            the blocks are still whole: their `free` follows
    free, evict      fill with sentinel      part of the measurement, so not timed; cached blocks are kept
    alloc, hit, fork table entries
    copy             copy-on-write
    move             copy a range to another place, the two may overlap
    swap_in          copy from host          into blocks whose `alloc` came before

Others follow the step's writes, before it is observed: drafts are rolled back, sequences fork, beams
change places, blocks leave the window.
"""

from collections.abc import Iterable
from itertools import groupby
from typing import Protocol

from engine.stopwatch import Stopwatch
from sim.events import Event, Kind

UNTIMED = (Kind.FREE, Kind.EVICT, Kind.ROLLBACK)
TIMED = (Kind.ALLOC, Kind.HIT, Kind.FORK, Kind.COPY, Kind.MOVE, Kind.SWAP_OUT, Kind.SWAP_IN)
MEMORY = frozenset((*UNTIMED, *TIMED))


class Memory(Protocol):
    """A pool under memory events; `name` is the sequence that is meant, or a request with all of its own."""

    def alloc(self, name: str, event: Event) -> None: ...
    def hit(self, name: str, event: Event) -> None: ...
    def fork(self, name: str, event: Event) -> None: ...
    def copy(self, name: str, event: Event) -> None: ...
    def move(self, name: str, event: Event) -> None: ...
    def free(self, name: str, event: Event) -> None: ...
    def evict(self, name: str, event: Event) -> None: ...
    def rollback(self, name: str, event: Event) -> None: ...
    def swap_out(self, name: str, event: Event) -> None: ...
    def swap_in(self, name: str, event: Event) -> None: ...

    def settle(self) -> None:
        """Does what was put off."""
        ...

    def first_place(self, name: str) -> int:
        """First slot or block of a sequence."""
        ...


def carry_out(events: Iterable[Event], memory: Memory, watch: Stopwatch) -> None:
    """Does to `memory` what the memory events among `events` say."""
    relevant = (event for event in events if event.kind in MEMORY)
    for is_untimed, run in groupby(relevant, key=lambda event: event.kind in UNTIMED):
        if is_untimed:
            _apply(run, memory)
        else:
            with watch:
                _apply(run, memory)


def _apply(events: Iterable[Event], memory: Memory) -> None:
    for event in events:
        getattr(memory, event.kind)(name_of(event), event)
    memory.settle()


def name_of(event: Event) -> str:
    """The sequence that an event is about, or its request where all are meant."""
    request, changes = event.request or "", event.changes
    return f"{request}/{changes['sequence']}" if "sequence" in changes else request


def parents_after(events: Iterable[Event], memory: Memory) -> dict[tuple[str, int], int]:
    """(request, sequence) -> the sequence from which it goes on, by the forks and copies after a step.

    A copy of a whole range names its parent by where that begins.
    """
    parents: dict[tuple[str, int], int] = {}
    for event in events:
        changes = event.changes
        if event.kind is Kind.FORK:
            parents[event.request or "", changes["sequence"]] = changes["parent"]
        elif event.kind is Kind.COPY and "place" not in changes:
            first = changes["source_slots"][0] if "source_slots" in changes else changes["source_blocks"][0]
            parents[event.request or "", changes["sequence"]] = _owner_of(event.request or "", first, memory)
    return parents


def _owner_of(request: str, first: int, memory: Memory) -> int:
    index = 0
    while memory.first_place(f"{request}/{index}") != first:
        index += 1
    return index
