"""Buddy placement, as the paper's Orca baselines use it (Knuth, TAOCP vol. 1, section 2.5).

A pool of any size is cut into the powers of two of its binary form, largest first, so every chunk
starts at a multiple of its own size and `start ^ size` is its buddy. A chunk whose buddy would lie
across a cut never finds it free at its own size, so nothing merges across the end of the pool:

    12 slots  =  [0, 8)  [8, 12)         the buddy of [8, 12) would be [12, 16): not there
"""

from sim.alloc.placement import Move, Ranges


def next_pow2(value: int) -> int:
    """The smallest power of two that is at least `value` (at least 1)."""
    return 1 << (value - 1).bit_length()


class BuddyPlacement:
    """Ranges rounded up to a power of two; the lowest address of the smallest fitting size goes first."""

    def __init__(self, num_slots: int) -> None:
        self.num_slots = num_slots
        self.num_free = num_slots
        self._free: dict[int, set[int]] = {}  # size -> starts of free chunks
        self._whole: dict[int, int] = {}  # size -> start of the pool's own chunks, which have no buddy
        start = 0
        for bit in reversed(range(num_slots.bit_length())):
            size = 1 << bit
            self._free[size] = set()
            if num_slots & size:
                self._free[size].add(start)
                self._whole[size] = start
                start += size

    @property
    def largest_possible(self) -> int:
        return 1 << (self.num_slots.bit_length() - 1)

    def capacity(self, length: int) -> int:
        return self.num_slots // next_pow2(length)  # the binary form keeps every multiple of a power of two

    def rounded(self, length: int) -> int:
        return next_pow2(length)

    def find(self, length: int) -> int | None:
        size = self._fitting_size(length)
        return None if size is None else min(self._free[size])

    def place(self, length: int) -> int | None:
        size = self._fitting_size(length)
        if size is None:
            return None
        start = min(self._free[size])
        self._free[size].remove(start)
        wanted = next_pow2(length)
        while size > wanted:  # keep the lower half, free the upper
            size //= 2
            self._free[size].add(start + size)
        self.num_free -= wanted
        return start

    def release(self, start: int, length: int) -> None:
        size = next_pow2(length)
        self.num_free += size
        self._put(start, size)

    def _put(self, start: int, size: int) -> None:
        """One more free chunk, which joins its buddy if that is free too, and so on."""
        while (buddy := start ^ size) in self._free.get(size, ()):
            self._free[size].remove(buddy)
            start = min(start, buddy)
            size *= 2
        self._free[size].add(start)

    def extend(self, start: int, length: int, needed: int, wanted: int) -> int | None:
        size = self._reachable(start, next_pow2(length), wanted)
        if size < needed:
            return None
        part = next_pow2(length)
        while part < size:
            self._free[part].remove(start + part)
            self.num_free -= part
            part *= 2
        return size

    def _reachable(self, start: int, size: int, wanted: int) -> int:
        """How large the chunk at `start` can get by taking in buddies that are free and lie above it."""
        while size < wanted and start & size == 0 and start + size in self._free.get(size, ()):
            size *= 2
        return size

    def gather(self, ranges: Ranges, count: int, length: int) -> list[Move] | None:
        """Joins free chunks of one size, smallest size first, until each size below has one at most.

        Those sum to less than `next_pow2(length)`, so as many chunks of that size are free as can be.
        """
        wanted = next_pow2(length)
        if self.num_free // wanted < count:
            return None
        ranges, moves, size = dict(ranges), list[Move](), 1
        while size < wanted:
            while len(self._free[size]) > 1:
                moves += self._join(ranges, size)
            size *= 2
        return moves

    def _join(self, ranges: Ranges, size: int) -> list[Move]:
        """Empties the buddy of one free chunk of `size` into another such chunk: two free ones become one."""
        inside = [chunk for chunk in self._free[size] if chunk != self._whole.get(size)]
        chunk = min(inside, key=lambda start: (self._held_in(ranges, start ^ size, size), start))
        others = self._free[size] - {chunk}
        target = min(others, key=lambda start: (start != self._whole.get(size), start))
        source = chunk ^ size
        moves = [(start, start - source + target) for start in sorted(ranges) if 0 <= start - source < size]
        for old, new in moves:
            ranges[new] = ranges.pop(old)
        for smaller, starts in self._free.items():
            if smaller < size:  # the free parts of the emptied chunk are those of the filled one now
                within = {start for start in starts if 0 <= start - source < size}
                starts -= within
                starts |= {start - source + target for start in within}
        self._free[size].remove(target)
        self._put(source, size)
        return moves

    def _held_in(self, ranges: Ranges, first: int, size: int) -> int:
        return sum(length for start, length in ranges.items() if 0 <= start - first < size)

    def open_behind(self, ranges: Ranges, start: int, more: int) -> list[Move] | None:
        return None  # a chunk's place is a multiple of its size: it grows into its buddy, or it moves

    def holes(self) -> list[tuple[int, int]]:
        return sorted((start, size) for size, starts in self._free.items() for start in starts)

    def _fitting_size(self, length: int) -> int | None:
        size = next_pow2(length)
        while size <= self.num_slots:
            if self._free[size]:
                return size
            size *= 2
        return None
