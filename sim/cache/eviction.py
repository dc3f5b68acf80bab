"""Which cached block goes first when memory is needed: in what order those that nobody uses are offered."""

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Protocol


class EvictionOrder(Iterable[int], Protocol):
    """The evictable blocks; iterating gives the first to go first."""

    because: str  # completes "these 3 ..."

    def __len__(self) -> int: ...

    def add(self, block: int, since: int) -> None:
        """`block` is used by nobody now; its content is cached since then."""
        ...

    def remove(self, block: int) -> None:
        """`block`, which must be here, is taken or used again."""
        ...


class LeastRecentlyUsed:
    """By the time at which the last user gave the block back: each use puts it off."""

    because = "were freed longest ago"

    def __init__(self) -> None:
        self._blocks: OrderedDict[int, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._blocks)

    def __iter__(self) -> Iterator[int]:
        return iter(self._blocks)

    def add(self, block: int, since: int) -> None:
        self._blocks[block] = None

    def remove(self, block: int) -> None:
        del self._blocks[block]


class FirstInFirstOut:
    """By the time at which the block's content was first cached: later uses count for nothing."""

    because = "were cached longest ago"

    def __init__(self) -> None:
        self._blocks: list[tuple[int, int]] = []  # (since, block), sorted
        self._since: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._blocks)

    def __iter__(self) -> Iterator[int]:
        return (block for _, block in self._blocks)

    def add(self, block: int, since: int) -> None:
        insort(self._blocks, (since, block))
        self._since[block] = since

    def remove(self, block: int) -> None:
        del self._blocks[bisect_left(self._blocks, (self._since.pop(block), block))]


EVICTIONS = {"lru": LeastRecentlyUsed, "fifo": FirstInFirstOut}
