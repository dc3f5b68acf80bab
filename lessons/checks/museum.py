"""Lesson 13: how a museum piece is shown, and the pieces about tables and allocation.

Those about numbers and caches are in `museum_numbers` and `museum_caches`. Each check has an obvious answer.
"""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from lessons.checks.core import Wrong, check
from lessons.pictures_card import card_of

Answer = Callable[..., Any]
COUNT = 60


def fails(piece: Callable[[Answer], None], broken: Answer) -> None:
    """Shows where `broken` fails the check of its piece; if it does not, that is an error."""
    try:
        piece(broken)
    except Wrong as wrong:
        print(wrong)
    else:
        raise AssertionError(f"{broken.__name__} passes: its fault is not seen")


def compare(answer: Answer, right: Answer, cases: Iterator[tuple[Any, ...]]) -> None:
    """As `check`, with a card of the first counter-example."""
    check(answer, right, cases, picture=card_of(answer))


def distinct(random: Random, most: int, least: int = 0) -> list[int]:
    """Block ids, each once."""
    return random.sample(range(100), random.randint(least, most))


def last_block(answer: Answer) -> None:
    """Checks `answer(table, length, block_size) -> block`, or None."""

    def cases(random: Random) -> Iterator[tuple[list[int], int, int]]:
        for _ in range(COUNT):
            table, size = distinct(random, 5, 1), random.randint(1, 4)
            yield table, random.randint(0, len(table) * size), size

    def right(table: list[int], length: int, block_size: int) -> int | None:
        held = [block for block in table for _ in range(block_size)][:length]
        return held[-1] if held else None

    compare(answer, right, cases(Random(0)))


def blocks_to_free(answer: Answer) -> None:
    """Checks `answer(stored, window, block_size) -> number of first blocks that nobody will read`."""

    def right(stored: int, window: int, block_size: int) -> int:
        read = range(max(0, stored + 1 - window), stored)  # by the next query, which sits at `stored`
        unread = 0
        while (unread + 1) * block_size <= stored and not any(
            position in read for position in range(unread * block_size, (unread + 1) * block_size)
        ):
            unread += 1
        return unread

    random = Random(1)
    numbers = ((random.randint(1, 40), random.randint(2, 12), random.randint(1, 6)) for _ in range(COUNT))
    compare(answer, right, numbers)


def release(answer: Answer) -> None:
    """Checks `answer(table, free) -> free list`, where a table may name a block twice."""

    def cases(random: Random) -> Iterator[tuple[list[int], list[int]]]:
        for _ in range(COUNT):
            blocks = distinct(random, 8, 2)
            cut = random.randint(1, len(blocks))
            table = [blocks[place % cut] for place in range(cut + random.randint(0, cut))]
            yield table, blocks[cut:]

    def right(table: list[int], free: list[int]) -> list[int]:
        after = list(free)
        for block in table:
            if block not in after:
                after.append(block)
        return after

    compare(answer, right, cases(Random(2)))


def allocate(answer: Answer) -> None:
    """Checks `answer(free, count) -> (blocks or None, free list)`."""

    def right(free: list[int], count: int) -> tuple[list[int] | None, list[int]]:
        return (free[:count], free[count:]) if count <= len(free) else (None, free)

    random = Random(4)
    compare(answer, right, ((distinct(random, 6), random.randint(0, 8)) for _ in range(COUNT)))


def undo(answer: Answer) -> None:
    """Checks `answer(free, taken) -> free list as it was`."""

    def cases(random: Random) -> Iterator[tuple[list[int], list[int]]]:
        for _ in range(COUNT):
            before = distinct(random, 8)
            cut = random.randint(0, len(before))
            yield before[cut:], before[:cut]

    compare(answer, lambda free, taken: [*taken, *free], cases(Random(5)))
