"""Contiguous ranges that start at the prompt and get longer: `grow` and, over size classes, `slab`.

A full range is first extended where it is, if the slots behind it are free and the placement can; else it
moves: a longer range is placed beside it and its tokens are copied there (as Hugging Face's cache does
by concatenation). So for a moment both are held, and the copies take time:

    before   | r1: 8 of 8 | r2: 5 of 16          | free                        |
    after    | free       | r2: 5 of 16          | r1: 9 of 16        | free   |
"""

from collections.abc import Callable

from sim.alloc.contiguous import ContiguousAllocator
from sim.alloc.placement import Placement
from sim.alloc.protocol import GRANTED, Granted, Short
from sim.events import Kind, Sink
from sim.request import Request, Sequence, SequenceGroup

Growth = Callable[[int, int], int]  # slots taken, slots needed -> slots to ask for


def double(taken: int, needed: int) -> int:
    """As a dynamic array does: over a whole life each token is copied about once."""
    return max(2 * taken, needed)


def exactly(taken: int, needed: int) -> int:
    """No more than is needed: the placement's size classes are what leaves room."""
    return needed


def by_step(step: int) -> Growth:
    """`step` slots at a time: less is left empty, more is copied (a concatenation has step 1)."""
    return lambda taken, needed: max(taken + step, needed)


class GrowingAllocator(ContiguousAllocator):
    """Holds one range for each sequence, at first as long as its input, and lengthens it by `growth`.

    Where the length that `growth` asks for is not to be had, what is needed will do. All sequences of a
    request get their ranges at admission, because a fork cannot fail.
    """

    unit = "contiguous slots"
    grows = True

    def __init__(
        self,
        num_slots: int,
        growth: Growth,
        placement: Placement,
        max_len: int,
        log: Sink,
        watermark: float = 0.0,
        *,
        compacts: bool = False,
    ) -> None:
        super().__init__(num_slots, "grow", placement, max_len, log, watermark, compacts=compacts)
        self._growth = growth

    def first_length(self, group: SequenceGroup) -> int:
        return group.sequences[0].num_pending

    def longest(self, request: Request) -> int:
        return request.worst_case_tokens

    def grow(self, sequence: Sequence, num_tokens: int) -> Granted | Short:
        taken = self.placement.rounded(self.ranges[sequence][1])
        needed = sequence.stored + num_tokens
        if needed <= taken:
            return GRANTED
        wanted = max(needed, min(self._growth(taken, needed), self._max_len))
        if (
            self._extend(sequence, needed, wanted)
            or self._move(sequence, wanted)
            or self._move(sequence, needed)
            or (self._compacts and self._compact_for(sequence, needed, wanted))
        ):
            return GRANTED
        return Short(needed, self._largest_hole(needed))

    def _extend(self, sequence: Sequence, needed: int, wanted: int) -> bool:
        """Takes slots behind the range, as many as are wanted or at least needed."""
        start, length = self.ranges[sequence]
        taken = self.placement.rounded(length)
        longer = self.placement.extend(start, taken, needed, wanted)
        if longer is None:
            return False
        length = min(wanted, longer)
        self.ranges[sequence] = (start, length)
        why = f"its {taken} slots are full and {longer - taken} behind them are free: extended to {longer}"
        self._emit(Kind.ALLOC, sequence, why, slots=[start, longer], reserved=length)
        return True

    def _move(self, sequence: Sequence, length: int) -> bool:
        """Copies the tokens to a new range, then gives up the old one."""
        start, old_length = self.ranges[sequence]
        new_start = self.placement.place(length)
        if new_start is None:
            return False
        taken, longer = self.placement.rounded(old_length), self.placement.rounded(length)
        why = f"its {taken} slots are full and cannot be extended: placed anew with {longer}"
        self._book_move(sequence, new_start, length, why)
        self.placement.release(start, old_length)
        return True

    def _compact_for(self, sequence: Sequence, needed: int, wanted: int) -> bool:
        """Opens the hole behind this range; where the placement cannot, makes one that it may move to."""
        start, length = self.ranges[sequence]
        taken = self.placement.rounded(length)
        why = f"{sequence.name} needs {needed} slots in a row: {self.num_free_slots} are free, but lie apart"
        if self._move_all(self.placement.open_behind(self._taken(), start, needed - taken), why):
            return self._extend(sequence, needed, wanted)
        if self._move_all(self.placement.gather(self._taken(), 1, needed), why):
            return self._extend(sequence, needed, wanted) or self._move(sequence, needed)
        return False

    def _largest_hole(self, needed: int) -> int:
        """The longest range that could be had; a longer hole than `needed` is one of another size class."""
        fitting = (length for _, length in self.placement.holes() if length < needed)
        return max(fitting, default=0)
