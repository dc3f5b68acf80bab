"""Slabs: the pool is carved into pieces, and each piece is cut into equal chunks of one size class.

Bonwick, "The Slab Allocator: An Object-Caching Kernel Memory Allocator" (USENIX 1994), made it for kernel
objects; memcached's size classes brought it to caches; the seeds call it a memory pool. A range takes a
whole chunk of the smallest class that holds it, so nothing is ever searched for or merged. The price is
rounding inside chunks, and free chunks that only their own class can use:

    pool    | slab of 4 x 64        | slab of 2 x 256                | free: a slab of any class |
            | used | free | free |  | used           | free          |
"""

from dataclasses import dataclass, field

from sim.alloc.placement import Move, Placement, Ranges

CHUNKS_PER_SLAB = 8  # Bonwick: an eighth is the most that the end of a slab may waste


@dataclass(slots=True)
class Slab:
    """`num_chunks` chunks of `size` slots from `start` on; it goes back to the pool when all are free."""

    start: int
    size: int
    num_chunks: int
    free: set[int] = field(default_factory=set[int])  # starts of free chunks

    def __post_init__(self) -> None:
        self.free = {self.start + index * self.size for index in range(self.num_chunks)}

    @property
    def length(self) -> int:
        return self.size * self.num_chunks


class SlabPlacement:
    """Ranges rounded up to a class of `classes`; slabs lie where `pool` places them.

    A slab has `CHUNKS_PER_SLAB` chunks, or as many as the largest class is long, or one where no more fit.
    """

    def __init__(self, pool: Placement, classes: list[int]) -> None:
        self.classes = classes
        self._pool = pool
        self._num_free_chunk_slots = 0
        self._slabs: dict[int, dict[int, Slab]] = {size: {} for size in classes}  # size -> start -> slab
        self._slab_of: dict[int, Slab] = {}  # start of a taken chunk -> its slab

    @property
    def num_free(self) -> int:
        return self._pool.num_free + self._num_free_chunk_slots

    @property
    def largest_possible(self) -> int:
        return max((size for size in self.classes if self._pool.capacity(size)), default=0)

    def class_of(self, length: int) -> int | None:
        """The smallest class that holds `length` slots."""
        return next((size for size in self.classes if size >= length), None)

    def capacity(self, length: int) -> int:
        size = self.class_of(length)
        return 0 if size is None else self._pool.capacity(size)

    def rounded(self, length: int) -> int:
        return self.class_of(length) or length

    def find(self, length: int) -> int | None:
        size = self.class_of(length)
        if size is None:
            return None
        if slab := self._slab_with_room(size):
            return min(slab.free)
        return self._pool.find(size)

    def place(self, length: int) -> int | None:
        size = self.class_of(length)
        slab = None if size is None else self._slab_with_room(size) or self._carve(size)
        if slab is None:
            return None
        start = min(slab.free)
        slab.free.remove(start)
        self._num_free_chunk_slots -= slab.size
        self._slab_of[start] = slab
        return start

    def release(self, start: int, length: int) -> None:
        slab = self._slab_of.pop(start)
        slab.free.add(start)
        self._num_free_chunk_slots += slab.size
        if len(slab.free) == slab.num_chunks:
            del self._slabs[slab.size][slab.start]
            self._num_free_chunk_slots -= slab.length
            self._pool.release(slab.start, slab.length)

    def extend(self, start: int, length: int, needed: int, wanted: int) -> int | None:
        return None  # a chunk's neighbours are chunks: it moves up a class instead

    def gather(self, ranges: Ranges, count: int, length: int) -> list[Move] | None:
        return None  # refused by `sim.combinations`: sliding chunks together would break their grid

    def open_behind(self, ranges: Ranges, start: int, more: int) -> list[Move] | None:
        return None

    def holes(self) -> list[tuple[int, int]]:
        slabs = (slab for of_class in self._slabs.values() for slab in of_class.values())
        chunks = [(start, slab.size) for slab in slabs for start in slab.free]
        return sorted([*self._pool.holes(), *chunks])

    def _slab_with_room(self, size: int) -> Slab | None:
        """The lowest slab of the class that has a free chunk."""
        starts = [start for start, slab in self._slabs[size].items() if slab.free]
        return self._slabs[size][min(starts)] if starts else None

    def _carve(self, size: int) -> Slab | None:
        most = max(1, min(CHUNKS_PER_SLAB, self.classes[-1] // size))
        for num_chunks in dict.fromkeys((most, 1)):
            start = self._pool.place(size * num_chunks)
            if start is not None:
                slab = self._slabs[size][start] = Slab(start, size, num_chunks)
                self._num_free_chunk_slots += slab.length
                return slab
        return None
