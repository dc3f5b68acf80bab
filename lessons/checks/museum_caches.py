"""Lesson 13: the museum pieces about prefix caches."""

from collections.abc import Iterator
from random import Random
from typing import Any

from lessons.checks.museum import COUNT, Answer, compare, distinct


def adopt(answer: Answer) -> None:
    """Checks `answer(table, cached) -> (table, freed)`."""

    def cases(random: Random) -> Iterator[tuple[list[int], list[int]]]:
        for _ in range(COUNT):
            blocks = distinct(random, 10, 2)
            half = len(blocks) // 2
            table, others = blocks[:half], blocks[half:]
            cached = [random.choice((mine, other)) for mine, other in zip(table, others, strict=False)]
            yield table, cached[: random.randint(0, len(cached))]

    def right(table: list[int], cached: list[int]) -> tuple[list[int], list[int]]:
        after = [cached[place] if place < len(cached) else block for place, block in enumerate(table)]
        return after, [block for block in table if block not in after]

    compare(answer, right, cases(Random(3)))


def to_compute(answer: Answer) -> None:
    """Checks `answer(prompt, cached_blocks, block_size) -> tokens`."""

    def right(prompt: int, cached_blocks: int, block_size: int) -> int:
        return len(range(min(cached_blocks * block_size, prompt - 1), prompt))

    random = Random(6)
    sizes = ((random.randint(1, 4), random.randint(1, 30)) for _ in range(COUNT))
    compare(answer, right, ((prompt, random.randint(0, prompt // size), size) for size, prompt in sizes))


def block_keys(answer: Answer) -> None:
    """Checks `answer(tokens, start, stop, block_size) -> keys of the blocks that the chunk completes`."""

    def cases(random: Random) -> Iterator[tuple[list[int], int, int, int]]:
        for _ in range(COUNT):
            tokens = [random.randint(0, 9) for _ in range(random.randint(1, 16))]
            start = random.randint(0, len(tokens) - 1)
            yield tokens, start, random.randint(start + 1, len(tokens)), random.randint(1, 4)

    def right(tokens: list[int], start: int, stop: int, block_size: int) -> list[tuple[int, ...]]:
        ends = [end for end in range(start + 1, stop + 1) if end % block_size == 0]
        return [tuple(tokens[:end]) for end in ends]

    compare(answer, right, cases(Random(7)))


def cache_key(answer: Answer) -> None:
    """Checks `answer(tokens, adapter, salt)`: keys are equal if and only if all three are."""

    def cases(random: Random) -> Iterator[tuple[Any, Any]]:
        for _ in range(4 * COUNT):
            one, other = (
                ((random.randint(1, 2),), random.choice((None, "x", "y")), random.choice((None, "x", "y")))
                for _ in range(2)
            )
            yield one, other

    def collide(one: Any, other: Any) -> bool:
        return answer(*one) == answer(*other)

    collide.__name__ = f"equal keys by {answer.__name__}"
    compare(collide, lambda one, other: one == other, cases(Random(8)))


def lock(answer: Answer) -> None:
    """Checks `answer(parents, node) -> nodes from `node` up, without the root`."""

    def cases(random: Random) -> Iterator[tuple[dict[str, str], str]]:
        for place in range(COUNT):
            names = "abcdefgh"[: 1 + place % 8]
            parents = {name: random.choice(["root", *names[:index]]) for index, name in enumerate(names)}
            yield parents, random.choice(names)

    def right(parents: dict[str, str], node: str) -> list[str]:
        return [] if node == "root" else [node, *right(parents, parents[node])]

    compare(answer, right, cases(Random(9)))
