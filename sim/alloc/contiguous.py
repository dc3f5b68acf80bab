"""Contiguous reservation: one range for each sequence, taken whole at admission (paper section 6.1).

    [start, start + stored)     written
    [.., start + length)        asked for, empty
    [.., start + taken)         what the placement rounded up to

max     `max_len` slots, whatever is asked for        Orca (Max), FasterTransformer
pow2    prompt + the next power of two of the output  Orca (Pow2): looks at the true output
oracle  exactly what will be stored                   Orca (Oracle): looks at the true output
"""

from collections.abc import Iterable
from typing import Any

from sim.alloc.placement import Move, Placement, Ranges
from sim.alloc.protocol import GRANTED, Granted, Short, Traffic, Usage
from sim.alloc.reservations import RESERVATIONS
from sim.alloc.usage import range_usage
from sim.events import Kind, Sink
from sim.request import Request, Sequence, SequenceGroup


class ContiguousAllocator:
    """Reserves by one of `RESERVATIONS`, placed by a `Placement`. Never runs short after admission.

    Each sequence of a request has a range of its own: nothing is shared, a fork copies. With `compacts`,
    ranges are moved together when the free slots are enough but lie apart.
    """

    unit = "slots"
    grows = False  # whether a sequence may go on into what the placement rounded up, and beyond

    def __init__(
        self,
        num_slots: int,
        reservation: str,
        placement: Placement,
        max_len: int,
        log: Sink,
        watermark: float = 0.0,
        *,
        compacts: bool = False,
    ) -> None:
        self.num_slots = num_slots
        self.num_watermark_slots = int(watermark * num_slots)
        self.placement = placement
        self.ranges: dict[Sequence, tuple[int, int]] = {}  # (start, reserved length)
        self.traffic = Traffic()
        self._reservation = reservation
        self._max_len = max_len
        self._compacts = compacts
        self._log = log

    @property
    def num_free_slots(self) -> int:
        return self.placement.num_free

    @property
    def num_cached_slots(self) -> int:
        return 0

    def reservation(self, request: Request) -> int:
        """Slots that this policy asks for, for each sequence."""
        return RESERVATIONS[self._reservation](request, self._max_len)

    def first_length(self, group: SequenceGroup) -> int:
        """Slots that each sequence of a waiting group asks for."""
        return self.reservation(group.request)

    def longest(self, request: Request) -> int:
        """Slots that each sequence must be able to get when nobody else runs."""
        return self.reservation(request)

    def never_fits(self, request: Request) -> Short | None:
        worst = request.width * request.worst_case_tokens
        if worst > self.num_slots:
            return Short(worst, self.num_slots)
        length = self.longest(request)
        if request.width > self.placement.capacity(length):
            return Short(
                request.width * self.placement.rounded(length),
                self.placement.capacity(length) * self.placement.rounded(length)
                or self.placement.largest_possible,
                asked=request.width * length,
            )
        return None

    def uncached_tokens(self, group: SequenceGroup) -> int:
        return group.num_pending

    def admit(self, group: SequenceGroup, num_tokens: int, *, keep_watermark: bool) -> Granted | Short:
        length, count = self.first_length(group), len(group.sequences)
        taken = self.placement.rounded(length)
        needed = taken * count
        available = self.num_free_slots - (self.num_watermark_slots if keep_watermark else 0)
        starts = self._place_all(length, count) if needed <= available else None
        if starts is None and needed <= available and self._compacts:
            why = f"{group.request.id} needs {needed} slots: {self.num_free_slots} are free, but lie apart"
            if self._move_all(self.placement.gather(self._taken(), count, length), why):
                starts = self._place_all(length, count)
        if starts is None:
            return Short(needed, max(available, 0))
        for sequence, start in zip(group.sequences, starts, strict=True):
            self.ranges[sequence] = (start, length)
            left = self.num_free_slots
            why = f"reserves {length} slots, placed at {start} in a range of {taken}, {left} left free"
            self._emit(Kind.ALLOC, sequence, why, slots=[start, taken], reserved=length)
        return GRANTED

    def _taken(self) -> Ranges:
        return {start: self.placement.rounded(length) for start, length in self.ranges.values()}

    def _move_all(self, moves: list[Move] | None, why: str) -> bool:
        """Books what a compaction moved; returns whether there was one."""
        owners = {start: sequence for sequence, (start, _) in self.ranges.items()}
        for old, new in moves or ():
            sequence = owners[new] = owners.pop(old)
            self._book_move(sequence, new, self.ranges[sequence][1], why)
        return moves is not None

    def _book_move(self, sequence: Sequence, start: int, length: int, why: str) -> None:
        """Its tokens are copied to a range that is placed already; giving up the old one is the caller's."""
        old_start, old_length = self.ranges[sequence]
        self.ranges[sequence] = (start, length)
        self.traffic.moved_tokens += sequence.stored
        self._emit(
            Kind.MOVE,
            sequence,
            f"{why}; {sequence.stored} tokens of {sequence.name} move from {old_start} to {start}",
            source_slots=[old_start, self.placement.rounded(old_length)],
            destination_slots=[start, self.placement.rounded(length)],
            reserved=length,
            tokens=sequence.stored,
        )

    def _place_all(self, length: int, count: int) -> list[int] | None:
        """Starts of `count` ranges, or None with nothing taken."""
        starts: list[int] = []
        for _ in range(count):
            start = self.placement.place(length)
            if start is None:
                for taken in reversed(starts):
                    self.placement.release(taken, length)
                return None
            starts.append(start)
        return starts

    def grow(self, sequence: Sequence, num_tokens: int) -> Granted | Short:
        _, length = self.ranges[sequence]
        assert sequence.stored + num_tokens <= length, f"{sequence.name} outgrew its reservation of {length}"
        return GRANTED

    def settle(self, sequence: Sequence, before: int, *, was_prefilling: bool) -> None:
        raise AssertionError("windows and drafts are refused for contiguous ranges: they need blocks")

    def fork(self, group: SequenceGroup) -> None:
        for sequence in group.sequences[1:]:
            self._copy(group.sequences[0], sequence)

    def reorder(self, group: SequenceGroup, parents: list[int]) -> None:
        # All of these copies read before any of them writes: one may fill the range that another reads.
        for sequence, parent in zip(group.sequences, parents, strict=True):
            if parent != sequence.index:
                self._copy(group.sequences[parent], sequence)

    def _copy(self, parent: Sequence, child: Sequence) -> None:
        source, _ = self.ranges[parent]
        destination, _ = self.ranges[child]
        self.traffic.copies += 1
        self.traffic.copied_tokens += parent.stored
        self._emit(
            Kind.COPY,
            child,
            f"sequence {child.index} goes on from sequence {parent.index}: {parent.stored} tokens copied",
            source_slots=[source, parent.stored],
            destination_slots=[destination, parent.stored],
            tokens=parent.stored,
        )

    def release(self, group: SequenceGroup, why: str) -> None:
        for sequence in group.sequences:
            start, length = self.ranges.pop(sequence)
            self.placement.release(start, length)
            self._emit(Kind.FREE, sequence, why, slots=[start, self.placement.rounded(length)])

    def host_has_room(self, group: SequenceGroup) -> bool:
        return False

    def swap_out(self, group: SequenceGroup, why: str) -> None:
        raise AssertionError("ranges do not swap: `host_has_room` says so")

    def swap_in(self, group: SequenceGroup, tokens: list[int], why: str) -> Granted | Short:
        raise AssertionError("ranges do not swap: `host_has_room` says so")

    def table_bytes(self) -> int:
        return 4 * 2 * len(self.ranges)  # start and length

    def usage(self, groups: Iterable[SequenceGroup]) -> Usage:
        return range_usage(self.ranges, groups, self.placement.rounded, grows=self.grows)

    def is_stranded(self, group: SequenceGroup) -> bool:
        length, count = self.first_length(group), len(group.sequences)
        if length * count > self.num_free_slots:
            return False
        if count == 1:
            return self.placement.find(length) is None
        starts = self._place_all(length, count)
        for start in reversed(starts or []):
            self.placement.release(start, length)
        return starts is None

    def check(self) -> None:
        taken = [(start, self.placement.rounded(length)) for start, length in self.ranges.values()]
        everything = sorted(taken + self.placement.holes())
        position = 0
        for start, length in everything:
            assert start == position, f"slots [{position}, {start}) are lost or have two owners"
            position += length
        assert position == self.num_slots, f"{position} of {self.num_slots} slots accounted for"
        free = sum(length for _, length in self.placement.holes())
        assert free == self.num_free_slots, f"{free} slots in holes, {self.num_free_slots} counted free"

    def _emit(self, kind: Kind, sequence: Sequence, why: str, **changes: Any) -> None:
        """An event of one sequence; its index is given where the request has several."""
        which = {"sequence": sequence.index} if sequence.request.width > 1 else {}
        self._log.emit(kind, sequence.request.id, why, **which, **changes)
