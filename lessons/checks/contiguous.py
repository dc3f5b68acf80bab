"""Lesson 2: what a reservation holds, and to what use."""

from collections.abc import Callable, Iterator
from random import Random

from lessons.checks.core import check
from lessons.pictures import strip


def split(prompt: int, emitted: int, output: int, held: int) -> tuple[int, int, int]:
    """Slots live, reserved and internal of one request that has emitted `emitted` of `output` tokens."""
    live = prompt + emitted - 1
    final = prompt + output - 1
    return live, final - live, held - final


def cases(seed: int = 0, count: int = 50) -> Iterator[tuple[int, int, int, int]]:
    """Prompt, emitted, output and slots held, at random."""
    random = Random(seed)
    for _ in range(count):
        prompt, output = random.randint(1, 20), random.randint(1, 20)
        yield prompt, random.randint(1, output), output, random.randint(prompt + output, 60)


def waste_of_one(answer: Callable[[int, int, int, int], tuple[int, int, int]]) -> None:
    """Checks `answer(prompt, emitted, output, held) -> (live, reserved, internal)`."""
    check(
        answer,
        split,
        cases(),
        parts=("live", "reserved", "internal"),
        picture=lambda *case: strip({"yours": case[-2], "right": case[-1]}),
    )
