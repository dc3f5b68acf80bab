"""Lesson 2: what a reservation holds, and to what use."""

from collections.abc import Callable, Iterator
from random import Random

from lessons.checks.core import check
from lessons.pictures import strip
from lessons.pictures_cache import bars
from sim import Request
from sim.alloc.reservations import RESERVATIONS


def reserved(rule: str, prompt: int, output: int, max_len: int) -> int:
    """The length of a request's range, by the allocator's own rule."""
    request = Request(id="a", arrival_s=0.0, prompt=prompt, output=output, max_tokens=output)
    return RESERVATIONS[rule](request, max_len)


def ranges(seed: int = 0, count: int = 60) -> Iterator[tuple[str, int, int, int]]:
    """Rule, prompt, output and longest text, by turns; now and then the power of two does not fit."""
    random = Random(seed)
    for place in range(count):
        prompt, output = random.randint(1, 20), random.randint(1, 20)
        yield tuple(RESERVATIONS)[place % 3], prompt, output, prompt + output + random.randint(0, 24)


def length_of_range(answer: Callable[[str, int, int, int], int]) -> None:
    """Checks `answer(rule, prompt, output, max_len) -> slots`."""
    check(answer, reserved, ranges(), picture=lambda *case: bars(*case[-2:], "slots reserved"))


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
