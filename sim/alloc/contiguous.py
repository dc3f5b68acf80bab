"""Contiguous reservation: one range for each sequence, taken whole at admission (paper section 6.1).

max     `max_len` slots, whatever is asked for        Orca (Max), FasterTransformer
pow2    prompt + the next power of two of the output  Orca (Pow2): looks at the true output
oracle  exactly what will be stored                   Orca (Oracle): looks at the true output
"""

from collections.abc import Callable

from sim.alloc.buddy import next_pow2
from sim.alloc.placement import Placement
from sim.alloc.protocol import GRANTED, Granted, Held, Short, Traffic
from sim.events import Kind, Sink
from sim.request import Request, Sequence

RESERVATIONS: dict[str, Callable[[Request, int], int]] = {
    "max": lambda request, max_len: max_len,
    "pow2": lambda request, max_len: min(request.prompt + next_pow2(request.output), max_len),
    "oracle": lambda request, max_len: request.final_tokens,
}


class ContiguousAllocator:
    """Reserves by one of `RESERVATIONS`, placed by a `Placement`. Never runs short after admission."""

    unit = "slots"

    def __init__(
        self,
        num_slots: int,
        reservation: str,
        placement: Placement,
        max_len: int,
        log: Sink,
        watermark: float = 0.0,
    ) -> None:
        self.num_slots = num_slots
        self.num_watermark_slots = int(watermark * num_slots)
        self.placement = placement
        self.ranges: dict[Sequence, tuple[int, int]] = {}  # (start, reserved length)
        self._reserve = RESERVATIONS[reservation]
        self._max_len = max_len
        self.traffic = Traffic()
        self._log = log

    @property
    def num_free_slots(self) -> int:
        return self.placement.num_free

    def reservation(self, request: Request) -> int:
        """Slots that this policy asks for."""
        return self._reserve(request, self._max_len)

    def never_fits(self, request: Request) -> Short | None:
        if request.worst_case_tokens > self.num_slots:
            return Short(request.worst_case_tokens, self.num_slots)
        needed = self.placement.rounded(self.reservation(request))
        largest = self.placement.largest_possible
        return Short(needed, largest) if needed > largest else None

    def admit(self, sequence: Sequence, num_tokens: int, *, keep_watermark: bool) -> Granted | Short:
        length = self.reservation(sequence.request)
        taken = self.placement.rounded(length)
        available = self.num_free_slots - (self.num_watermark_slots if keep_watermark else 0)
        start = self.placement.place(length) if taken <= available else None
        if start is None:
            return Short(taken, max(available, 0))
        self.ranges[sequence] = (start, length)
        self._log.emit(
            Kind.ALLOC,
            sequence.request.id,
            f"reserves {length} slots, placed at {start} in a range of {taken}, {self.num_free_slots} left free",
            slots=[start, taken],
            reserved=length,
        )
        return GRANTED

    def grow(self, sequence: Sequence, num_tokens: int) -> Granted | Short:
        _, length = self.ranges[sequence]
        assert sequence.stored + num_tokens <= length, (
            f"{sequence.request.id} outgrew its reservation of {length}"
        )
        return GRANTED

    def release(self, sequence: Sequence, why: str) -> None:
        start, length = self.ranges.pop(sequence)
        self.placement.release(start, length)
        self._log.emit(Kind.FREE, sequence.request.id, why, slots=[start, self.placement.rounded(length)])

    def host_has_room(self, sequence: Sequence) -> bool:
        return False

    def swap_out(self, sequence: Sequence, why: str) -> None:
        raise AssertionError("a reservation made in full at admission is never preempted")

    def swap_in(self, sequence: Sequence, num_tokens: int, why: str) -> Granted | Short:
        raise AssertionError("a reservation made in full at admission is never preempted")

    def table_bytes(self) -> int:
        return 4 * 2 * len(self.ranges)  # start and length

    def held(self, sequence: Sequence) -> Held:
        _, length = self.ranges[sequence]
        return Held(length, self.placement.rounded(length))

    def is_stranded(self, sequence: Sequence) -> bool:
        length = self.reservation(sequence.request)
        return length <= self.num_free_slots and self.placement.find(length) is None

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
