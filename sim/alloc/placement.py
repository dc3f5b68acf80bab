"""Where a contiguous range goes: five classic placements over real addresses and real holes.

Knuth, The Art of Computer Programming, vol. 1, section 2.5 has all of them.
"""

from bisect import bisect_left, insort
from collections.abc import Callable
from typing import Protocol

Ranges = dict[int, int]  # start -> slots taken
Move = tuple[int, int]  # start before, start after


class Placement(Protocol):
    """Hands out ranges `[start, start + length)` of a pool of slots, never overlapping."""

    @property
    def num_free(self) -> int: ...

    @property
    def largest_possible(self) -> int:
        """The longest range that an empty pool could hold."""
        ...

    def capacity(self, length: int) -> int:
        """How many ranges of `length` an empty pool could hold."""
        ...

    def rounded(self, length: int) -> int:
        """Slots that a range of `length` really takes."""
        ...

    def find(self, length: int) -> int | None:
        """Where a range of `length` would start, or None when no hole takes it. Changes nothing."""
        ...

    def place(self, length: int) -> int | None:
        """Takes `rounded(length)` slots; returns their start, or None with nothing changed."""
        ...

    def release(self, start: int, length: int) -> None:
        """Gives back what `place(length)` returned; neighbouring holes become one."""
        ...

    def extend(self, start: int, length: int, needed: int, wanted: int) -> int | None:
        """Lets the range grow where it is, to `wanted` slots or at least to `needed`.

        Returns the length that it has then, or None with nothing changed.
        """
        ...

    def gather(self, ranges: Ranges, count: int, length: int) -> list[Move] | None:
        """Moves `ranges`, which are all that are placed, until `count` more of `length` can be placed.

        Returns the moves in an order in which each may be copied before the next, or None with nothing
        changed when no order of the ranges makes that room.
        """
        ...

    def open_behind(self, ranges: Ranges, start: int, more: int) -> list[Move] | None:
        """Moves `ranges` until at least `more` free slots follow the range at `start`; else as `gather`."""
        ...

    def holes(self) -> list[tuple[int, int]]:
        """All free ranges as (start, length), by address."""
        ...


class FitPlacement:
    """Holes in address order; `choose` picks among those that are long enough."""

    def __init__(self, num_slots: int, choose: Callable[["FitPlacement", list[int], int], int]) -> None:
        self.num_slots = num_slots
        self.cursor = 0  # where the last range ended: next-fit starts looking here
        self._choose = choose
        self._starts = [0]
        self._lengths = {0: num_slots}
        self.num_free = num_slots

    @property
    def largest_possible(self) -> int:
        return self.num_slots

    def capacity(self, length: int) -> int:
        return self.num_slots // length

    def rounded(self, length: int) -> int:
        return length

    def length_at(self, start: int) -> int:
        """Length of the hole that starts at `start`."""
        return self._lengths[start]

    def find(self, length: int) -> int | None:
        fitting = [start for start in self._starts if self._lengths[start] >= length]
        return self._choose(self, fitting, length) if fitting else None

    def place(self, length: int) -> int | None:
        start = self.find(length)
        if start is None:
            return None
        self._cut(start, length)
        self.cursor = start + length
        return start

    def release(self, start: int, length: int) -> None:
        self.num_free += length
        index = bisect_left(self._starts, start)
        if index < len(self._starts) and self._starts[index] == start + length:  # the hole right after
            length += self._lengths.pop(self._starts.pop(index))
        if index > 0:
            before = self._starts[index - 1]
            if before + self._lengths[before] == start:  # the hole right before
                self._lengths[before] += length
                return
        insort(self._starts, start)
        self._lengths[start] = length

    def extend(self, start: int, length: int, needed: int, wanted: int) -> int | None:
        end = start + length
        longer = min(wanted, length + self._lengths.get(end, 0))
        if longer < needed:
            return None
        self._cut(end, longer - length)
        return longer

    def gather(self, ranges: Ranges, count: int, length: int) -> list[Move] | None:
        return self._slide(ranges, self.num_slots) if count * length <= self.num_free else None

    def open_behind(self, ranges: Ranges, start: int, more: int) -> list[Move] | None:
        return self._slide(ranges, start) if more <= self.num_free else None

    def _slide(self, ranges: Ranges, last: int) -> list[Move]:
        """Ranges up to the one at `last` go down, the others up: one hole is left, between them."""
        order = sorted(ranges)
        low = slide_down([(start, ranges[start]) for start in order if start <= last])
        high = slide_up([(start, ranges[start]) for start in order if start > last], self.num_slots)
        hole = sum(length for start, length in ranges.items() if start <= last)
        self._starts = [hole] if self.num_free else []
        self._lengths = dict.fromkeys(self._starts, self.num_free)
        return [(old, new) for old, new in [*low, *high] if old != new]

    def _cut(self, start: int, length: int) -> None:
        """Takes the first `length` slots of the hole at `start`."""
        hole = self._lengths.pop(start)
        index = bisect_left(self._starts, start)
        if hole == length:
            del self._starts[index]
        else:
            self._starts[index] = start + length
            self._lengths[start + length] = hole - length
        self.num_free -= length

    def holes(self) -> list[tuple[int, int]]:
        return [(start, self._lengths[start]) for start in self._starts]


def slide_down(ranges: list[tuple[int, int]]) -> list[Move]:
    """Packs ranges, given by address, against slot 0. Each lands below what is still to be copied."""
    moves: list[Move] = []
    end = 0
    for start, length in ranges:
        moves.append((start, end))
        end += length
    return moves


def slide_up(ranges: list[tuple[int, int]], num_slots: int) -> list[Move]:
    """Packs ranges, given by address, against the end of the pool, the highest first."""
    moves: list[Move] = []
    end = num_slots
    for start, length in reversed(ranges):
        end -= length
        moves.append((start, end))
    return moves


def first_fit(pool: FitPlacement, fitting: list[int], length: int) -> int:
    """The lowest address."""
    return fitting[0]


def best_fit(pool: FitPlacement, fitting: list[int], length: int) -> int:
    """The smallest hole that is large enough."""
    return min(fitting, key=pool.length_at)


def worst_fit(pool: FitPlacement, fitting: list[int], length: int) -> int:
    """The largest hole."""
    return max(fitting, key=pool.length_at)


def next_fit(pool: FitPlacement, fitting: list[int], length: int) -> int:
    """The first hole from where the last placement ended, wrapping around."""
    return next((start for start in fitting if start >= pool.cursor), fitting[0])
