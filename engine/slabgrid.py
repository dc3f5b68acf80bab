"""Where a slab pool is cut into chunks, inferred from the ranges that the log names.

A chunk of a class that starts in no known slab begins a new one. It is of as many chunks as slabs of the
class have, if the room from there on was free, else of one (`sim.alloc.slabs`); it is gone when its
last chunk is free.
"""

from dataclasses import dataclass, field

from sim.alloc.slabs import CHUNKS_PER_SLAB
from sim.events import Event, Kind


@dataclass(slots=True)
class _Slab:
    start: int
    size: int  # of a chunk
    num_chunks: int
    taken: set[int] = field(default_factory=set[int])  # starts of chunks in use

    @property
    def end(self) -> int:
        return self.start + self.size * self.num_chunks


class SlabGrid:
    """The slabs that exist now."""

    def __init__(self, classes: list[int], num_slots: int, *, is_buddy: bool) -> None:
        self._classes = classes
        self._num_slots = num_slots
        self._is_buddy = is_buddy
        self._slabs: dict[int, _Slab] = {}  # by start

    def note(self, event: Event) -> None:
        """Follows ranges that are taken, moved and given up."""
        changes = event.changes
        match event.kind:
            case Kind.ALLOC:
                self._take(*changes["slots"])
            case Kind.MOVE:  # the new range is placed beside the old one
                self._take(*changes["destination_slots"])
                self._release(changes["source_slots"][0])
            case Kind.FREE:
                self._release(changes["slots"][0])
            case _:
                pass

    def num_places(self, length: int) -> int:
        """How many ranges of `length` the free chunks and the room between slabs can take."""
        size = next((size for size in self._classes if size >= length), None)
        if size is None:
            return 0
        slabs = [slab for slab in self._slabs.values() if slab.size == size]
        num_free_chunks = sum(slab.num_chunks - len(slab.taken) for slab in slabs)
        return num_free_chunks + sum(self._fit(size, *hole) for hole in self._between())

    def _take(self, start: int, size: int) -> None:
        slab = self._slab_at(start)
        if slab is None:
            slab = self._slabs[start] = _Slab(start, size, self._num_chunks(start, size))
        assert slab.size == size, f"a chunk of {size} in a slab of {slab.size} from {slab.start} on"
        slab.taken.add(start)

    def _release(self, start: int) -> None:
        slab = self._slab_at(start)
        assert slab is not None, f"slot {start} is in no slab"
        slab.taken.remove(start)
        if not slab.taken:
            del self._slabs[slab.start]

    def _num_chunks(self, start: int, size: int) -> int:
        most = max(1, min(CHUNKS_PER_SLAB, self._classes[-1] // size))
        is_aligned = start % (size * most) == 0 or not self._is_buddy
        fits = is_aligned and any(
            first <= start and start + size * most <= end for first, end in self._between()
        )
        return most if fits else 1

    def _slab_at(self, slot: int) -> _Slab | None:
        return next((slab for slab in self._slabs.values() if slab.start <= slot < slab.end), None)

    def _between(self) -> list[tuple[int, int]]:
        """What is in no slab, as half-open ranges."""
        edges = [0]
        for slab in sorted(self._slabs.values(), key=lambda slab: slab.start):
            edges += [slab.start, slab.end]
        edges.append(self._num_slots)
        return [(start, end) for start, end in zip(edges[::2], edges[1::2], strict=True) if start < end]

    def _fit(self, size: int, start: int, end: int) -> int:
        if not self._is_buddy:
            return (end - start) // size
        return max(0, end - -(-start // size) * size) // size
