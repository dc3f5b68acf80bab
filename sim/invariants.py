"""What must be true after every event of every run, numbered; `--check` holds each run against it.

An `Auditor` stands between those who act and the log. It believes the events alone: from them it keeps its
own tables and counts, and compares them with the books of scheduler and allocator whenever both are at rest.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from sim.alloc import KVAllocator
from sim.events import Event, Kind, Sink, decode_why
from sim.request import Request, Sequence
from sim.scheduler import Scheduler
from sim.state import State
from sim.tables import BlockTable, SlotRange, real

INVARIANTS = {
    1: "held and free slots make up the pool",
    2: "a block is freed when its last owner leaves, and never while it has one",
    3: "memory is handed out only when nobody holds it: two sequences share a block only by a hit or a fork",
    4: "arrived = finished + rejected + unfinished, and who is unfinished stands in exactly one queue",
    5: "nobody stores more tokens than it has slots for, nor emits more than it was asked to",
    6: "the ledger's classes are what the log says is held, cached and free",
    7: "nobody who decides looks at the true output length",  # sim.veil
}
# Events in the middle of something that an allocator does: its books are not compared until it is done.
IN_THE_MIDDLE = frozenset({
    Kind.HIT, Kind.ALLOC, Kind.FORK, Kind.COPY, Kind.FREE, Kind.SWAP_OUT, Kind.SWAP_IN, Kind.EVICT, Kind.MOVE,
})  # fmt: skip


class BrokenInvariant(AssertionError):
    """A fault of ours: the event after which it was seen, and what is wrong."""

    def __init__(self, number: int, event: Event, what: str) -> None:
        whose = f" of {event.request}" if event.request else ""
        where = f"in step {event.step} by {event.kind}{whose}"
        super().__init__(f"invariant {number} ({INVARIANTS[number]}) is broken {where}: {what}")
        self.number = number


class Auditor:
    """A sink that passes on to `log` what it has found to be in order.

    The invariants that concern single events are checked after each of them, at a cost that does not grow
    with the pool; those about whole books at the end of every step.
    """

    def __init__(self, log: Sink, requests: Mapping[str, Request], slots_per_block: int | None) -> None:
        self.log = log
        self.num_events = 0
        self._requests = requests
        self._size = slots_per_block or 1  # of ranges nothing is counted in blocks
        self._state = State()
        self._handed_out: set[int] = set()  # blocks that were given to somebody and not freed
        self._owners: Counter[int] = Counter()  # block -> tables that it stands in
        self._num_range_slots = 0
        self._count: Counter[Kind] = Counter()
        self._allocator: KVAllocator | None = None
        self._scheduler: Scheduler | None = None

    def watch(self, allocator: KVAllocator, scheduler: Scheduler | None = None) -> None:
        """Whose books the log is compared with."""
        self._allocator = allocator
        self._scheduler = scheduler

    @property
    def step(self) -> int:
        return self.log.step

    @step.setter
    def step(self, step: int) -> None:
        self.log.step = step

    @property
    def time(self) -> float:
        return self.log.time

    @time.setter
    def time(self, time: float) -> None:
        self.log.time = time

    def emit(self, kind: Kind, request: str | None, why: str, **changes: Any) -> None:
        self._audit(Event(kind, self.log.step, self.log.time, request, changes, why))
        self.log.emit(kind, request, why, **changes)

    def decodes(self, sequences: list[Sequence], stored: list[int], emitted: list[int]) -> None:
        for sequence, num_stored, num in zip(sequences, stored, emitted, strict=True):
            changes = {"stored": num_stored, "emitted": num}
            id = sequence.request.id
            self._audit(Event(Kind.DECODE, self.log.step, self.log.time, id, changes, decode_why(num)))
        self.log.decodes(sequences, stored, emitted)

    def _audit(self, event: Event) -> None:
        self.num_events += 1
        self._count[event.kind] += 1
        self._before(event)
        names = self._state.names(event.request) if event.request else []
        old = [self._state.block_tables.get(name) for name in names]
        try:
            self._state.apply(event)
        except (KeyError, ValueError) as error:
            raise BrokenInvariant(
                4, event, f"it cannot happen to who is where the log left it: {error}"
            ) from error
        for name, table in zip(names, old, strict=True):
            self._follow(name, table)
        self._after(event)
        if event.kind not in IN_THE_MIDDLE:
            self._compare_counts(event)
        if event.kind is Kind.STEP:
            self._compare_books(event)

    # What single events must be

    def _before(self, event: Event) -> None:
        changes, out = event.changes, self._handed_out
        match event.kind:
            case Kind.ALLOC if "blocks" in changes:
                new = real(changes["blocks"])
                if event.request not in self._state.host_tables:  # else: tables come back, sharing included
                    self._require(3, event, len(set(new)) == len(new), f"blocks twice in {new}")
                    self._require(3, event, out.isdisjoint(new), f"held already: {sorted(out & set(new))}")
                out.update(new)
            case Kind.HIT:
                known = [block for block in real(changes["blocks"]) if block not in out]
                lost = [block for block in known if block not in self._state.cached]
                self._require(3, event, not lost, f"neither held nor cached: {lost}")
                out.update(known)
            case Kind.FORK:
                lost = [block for block in real(changes["blocks"]) if block not in out]
                self._require(3, event, not lost, f"held by nobody: {lost}")
            case Kind.COPY if "place" in changes:
                block, source = changes["destination"], changes["source"]
                self._require(3, event, block not in out, f"block {block} is held already")
                self._require(3, event, self._owners[source] > 1, f"block {source} has one owner")
                out.add(block)
            case Kind.FREE if "blocks" in changes:
                lost = [block for block in changes["blocks"] if block not in out]
                self._require(2, event, not lost, f"freed, and held by nobody: {lost}")
                out.difference_update(changes["blocks"])
            case _:
                pass

    def _after(self, event: Event) -> None:
        changes = event.changes
        match event.kind:
            case Kind.FREE:
                held = [block for block in changes.get("blocks", ()) if self._owners[block]]
                self._require(2, event, not held, f"freed, and still in a table: {held}")
                left = [block for block in changes.get("shared", ()) if not self._owners[block]]
                self._require(2, event, not left, f"said to be shared, and in no table: {left}")
            case Kind.PREFILL | Kind.DECODE:
                self._check_room(event)
            case Kind.EVICT:
                lost = [block for block in changes["blocks"] if block not in self._state.cached]
                self._require(6, event, not lost, f"evicted, and not cached: {lost}")
            case _:
                pass

    def _check_room(self, event: Event) -> None:
        request = self._requests[event.request or ""]
        index = event.changes.get("sequence")
        table = self._state.block_tables[request.id if index is None else f"{request.id}/{index}"]
        room = table.length if isinstance(table, SlotRange) else len(table) * self._size
        stored, emitted = event.changes["stored"], event.changes["emitted"]
        self._require(5, event, stored <= room, f"{stored} tokens stored, room for {room}")
        most = request.prompt + request.max_tokens - 1
        self._require(5, event, stored <= most, f"{stored} tokens stored, {most} at worst")
        self._require(5, event, emitted <= request.max_tokens, f"{emitted} of {request.max_tokens} emitted")

    # Following the tables

    def _follow(self, name: str, old: BlockTable | None) -> None:
        new = self._state.block_tables.get(name)
        if new is old:
            return
        if isinstance(new, SlotRange) or isinstance(old, SlotRange):
            self._num_range_slots += _length(new) - _length(old)
            return
        num_kept = len(old) if old and new and new[: len(old)] == old else 0
        self._owners.subtract(real(old[num_kept:] if old else ()))
        self._owners.update(real(new[num_kept:] if new else ()))

    # Comparing with the books

    def _compare_counts(self, event: Event) -> None:
        allocator, state = self._allocator, self._state
        if allocator is not None:
            held = self._num_range_slots or len(self._handed_out) * self._size
            free = allocator.num_free_slots
            what = f"{held} held by the log, {free} free, {allocator.num_slots} in the pool"
            self._require(1, event, held + free == allocator.num_slots, what)
        num_unfinished = len(state.waiting) + len(state.running) + len(state.swapped)
        arrived, gone = self._count[Kind.ARRIVE], self._count[Kind.FINISH] + self._count[Kind.REJECT]
        what = f"{arrived} arrived, {gone} finished or rejected, {num_unfinished} in the queues"
        self._require(4, event, arrived == gone + num_unfinished, what)

    def _compare_books(self, event: Event) -> None:
        state, scheduler = self._state, self._scheduler
        owned = {block for block, count in self._owners.items() if count}
        what = f"{sorted(owned ^ self._handed_out)} handed out and in no table, or the other way round"
        self._require(2, event, owned == self._handed_out, what)
        self._owners = +self._owners
        self._check_ranges(event)
        self._check_ledger(event)
        if scheduler is not None:
            queues = {
                "waiting": scheduler.waiting,
                "running": scheduler.running,
                "swapped": scheduler.swapped,
            }
            for name, groups in queues.items():
                ids = [group.request.id for group in groups]
                what = f"{name} is {ids}, by the log {getattr(state, name)}"
                self._require(4, event, ids == getattr(state, name), what)

    def _check_ranges(self, event: Event) -> None:
        ranges = [table for table in self._state.block_tables.values() if isinstance(table, SlotRange)]
        stop = 0
        for start, length, _ in sorted(ranges):
            self._require(3, event, start >= stop, f"slots [{start}, {stop}) are in two ranges")
            stop = start + length

    def _check_ledger(self, event: Event) -> None:
        ledger = event.changes["ledger"]
        cached = len(self._state.cached) * self._size
        held = self._num_range_slots or len(self._handed_out) * self._size
        in_use = sum(ledger[name] for name in ("live", "reserved", "internal", "rounding"))
        self._require(6, event, in_use == held, f"{in_use} slots in use, {held} held")
        self._require(6, event, ledger["cached"] == cached, f"{ledger['cached']} slots cached, not {cached}")
        free = ledger["pool"] - held - cached
        counted = ledger["free"] + ledger["external"]
        self._require(6, event, counted == free, f"{counted} slots free, not {free}")

    def _require(self, number: int, event: Event, holds: bool, what: str) -> None:
        if not holds:
            raise BrokenInvariant(number, event, what)


def _length(table: BlockTable | None) -> int:
    return table.length if isinstance(table, SlotRange) else 0
