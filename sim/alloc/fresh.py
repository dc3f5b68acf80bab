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


class FreshStack(list[int]):
    """Last in, first out: any block is as good as any other."""

    def __init__(self, num_blocks: int) -> None:
        super().__init__(range(num_blocks - 1, -1, -1))

    def take(self, count: int, place: int, after: int | None) -> list[int]:
        kept = len(self) - count
        taken = self[kept:][::-1]
        del self[kept:]
        return taken

    def put(self, block: int) -> None:
        self.append(block)
