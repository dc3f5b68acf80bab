"""External fragmentation from the memory map alone: would the head of `waiting` fit the holes there are?"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim.alloc import RESERVATIONS
from sim.alloc.buddy import next_pow2
from sim.config import Config
from sim.request import Request


@dataclass(frozen=True, slots=True)
class Stranding:
    """How a policy asks for room. `reservation` is None where any free slots will do (paged)."""

    reservation: Callable[[Request], int] | None
    is_buddy: bool

    @classmethod
    def of(cls, config: Config) -> "Stranding":
        """How the allocator and the placement of `config` ask."""
        if config.allocator not in RESERVATIONS:
            return cls(reservation=None, is_buddy=False)
        reserve = RESERVATIONS[config.allocator]
        return cls(lambda request: reserve(request, config.max_len), is_buddy=config.placement == "buddy")

    def is_stranded(self, head: Request, is_free: NDArray[np.bool_]) -> bool:
        """Whether free slots are enough in total for `head`, but in no place where it can go."""
        if self.reservation is None:
            return False
        length = self.reservation(head)
        if length > int(is_free.sum()):
            return False
        return not any(self._fits(length, start, end) for start, end in holes(is_free))

    def _fits(self, length: int, start: int, end: int) -> bool:
        if not self.is_buddy:
            return end - start >= length
        # A buddy chunk starts at a multiple of its size; neighbours always merge, so free is enough.
        size = next_pow2(length)
        return -(-start // size) * size + size <= end


def holes(is_free: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Runs of free slots as half-open ranges, by address."""
    edges = np.flatnonzero(np.diff(is_free.astype(np.int8), prepend=0, append=0))
    return [(int(start), int(end)) for start, end in edges.reshape(-1, 2)]
