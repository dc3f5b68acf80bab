"""External fragmentation from the memory map alone: would the head of `waiting` fit the holes there are?

Where a policy cuts the pool into size classes (`slab`), a hole between chunks is not one that any range can
go to. That grid leaves no mark in memory, so `SlabGrid` infers it from where chunks were placed.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.slabgrid import SlabGrid
from sim.alloc import RESERVATIONS
from sim.alloc.buddy import next_pow2
from sim.config import Config
from sim.events import Event
from sim.make import size_classes
from sim.request import Request

Length = Callable[[Request, int], int]  # of the request, and how many of its tokens are known


@dataclass(frozen=True, slots=True)
class Stranding:
    """How a policy asks for room. `length` is None where any free slots will do (blocks and pages)."""

    length: Length | None
    is_buddy: bool
    grid: SlabGrid | None = None

    @classmethod
    def of(cls, config: Config) -> "Stranding":
        """How the allocator and the placement of `config` ask."""
        is_buddy = config.placement == "buddy"
        if config.allocator in RESERVATIONS:
            reserve = RESERVATIONS[config.allocator]
            return cls(lambda request, num_known: reserve(request, config.max_len), is_buddy)
        if config.allocator == "grow":
            return cls(lambda request, num_known: num_known, is_buddy)
        if config.allocator == "slab":
            grid = SlabGrid(size_classes(config), config.num_slots, is_buddy=is_buddy)
            return cls(lambda request, num_known: num_known, is_buddy, grid)
        return cls(length=None, is_buddy=False)

    def note(self, event: Event) -> None:
        """Follows what the log says of ranges, as far as memory will not show it."""
        if self.grid is not None:
            self.grid.note(event)

    def is_stranded(self, head: Request, num_known: int, is_free: NDArray[np.bool_]) -> bool:
        """Whether free slots are enough in total for all ranges of `head`, but have no place for them."""
        if self.length is None:
            return False
        length = self.length(head, num_known)
        if length * head.width > int(is_free.sum()):
            return False
        if self.grid is not None:
            return self.grid.num_places(length) < head.width
        found = holes(is_free)
        return sum(self._num_places(length, start, end) for start, end in found) < head.width

    def _num_places(self, length: int, start: int, end: int) -> int:
        return num_aligned(next_pow2(length), start, end) if self.is_buddy else (end - start) // length


def num_aligned(size: int, start: int, end: int) -> int:
    """Buddy chunks of `size` in a hole: they start at multiples of it, and neighbours always merge."""
    return max(0, end - -(-start // size) * size) // size


def holes(is_free: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Runs of free slots as half-open ranges, by address."""
    edges = np.flatnonzero(np.diff(is_free.astype(np.int8), prepend=0, append=0))
    return [(int(start), int(end)) for start, end in edges.reshape(-1, 2)]
