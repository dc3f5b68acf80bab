"""Buddy placement, as the paper's Orca baselines use it (Knuth, TAOCP vol. 1, section 2.5).

A pool of any size is cut into the powers of two of its binary form, largest first, so every chunk
starts at a multiple of its own size and `start ^ size` is its buddy. A chunk whose buddy would lie
across a cut never finds it free at its own size, so nothing merges across the end of the pool:

    12 slots  =  [0, 8)  [8, 12)         the buddy of [8, 12) would be [12, 16): not there
"""


def next_pow2(value: int) -> int:
    """The smallest power of two that is at least `value` (at least 1)."""
    return 1 << (value - 1).bit_length()


class BuddyPlacement:
    """Ranges rounded up to a power of two; the lowest address of the smallest fitting size goes first."""

    def __init__(self, num_slots: int) -> None:
        self.num_slots = num_slots
        self.num_free = num_slots
        self._free: dict[int, set[int]] = {}  # size -> starts of free chunks
        start = 0
        for bit in reversed(range(num_slots.bit_length())):
            size = 1 << bit
            self._free[size] = set()
            if num_slots & size:
                self._free[size].add(start)
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
        while (buddy := start ^ size) in self._free.get(size, ()):
            self._free[size].remove(buddy)
            start = min(start, buddy)
            size *= 2
        self._free[size].add(start)

    def holes(self) -> list[tuple[int, int]]:
        return sorted((start, size) for size, starts in self._free.items() for start in starts)

    def _fitting_size(self, length: int) -> int | None:
        size = next_pow2(length)
        while size <= self.num_slots:
            if self._free[size]:
                return size
            size *= 2
        return None
