"""Which of the free blocks without content is handed out next."""

from collections.abc import Iterator
from typing import Protocol


class FreshBlocks(Protocol):
    """Free blocks that hold nothing. Iterating gives all of them, in any order."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[int]: ...

    def take(self, count: int, place: int, after: int | None) -> list[int]:
        """`count` blocks for places `place`, `place + 1`, ... of one block table.

        `after` is the block at `place - 1`, if there is one.
        """
        ...

    def put(self, block: int) -> None:
        """The block is free."""
        ...


class FreshStack:
    """Last in, first out: any block is as good as any other."""

    def __init__(self, num_blocks: int) -> None:
        self._blocks = list(range(num_blocks - 1, -1, -1))

    def __len__(self) -> int:
        return len(self._blocks)

    def __iter__(self) -> Iterator[int]:
        return iter(self._blocks)

    def take(self, count: int, place: int, after: int | None) -> list[int]:
        kept = len(self._blocks) - count
        taken = self._blocks[kept:][::-1]
        del self._blocks[kept:]
        return taken

    def put(self, block: int) -> None:
        self._blocks.append(block)
