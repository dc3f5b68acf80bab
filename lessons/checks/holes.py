"""Lesson 3: where a range goes, what is left when it leaves, and how to gather what is left."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from lessons.checks.core import check
from lessons.pictures_ranges import holes, lanes
from sim.alloc import PLACEMENTS
from sim.alloc.placement import Placement, slide_down

Holes = list[tuple[int, int]]  # (start, length), by address
NUM_SLOTS = 40


def filled(taken: dict[int, int], placement: str = "best-fit", num_slots: int = NUM_SLOTS) -> Placement:
    """A pool of the library in which exactly the ranges `taken` (start -> length) are held."""
    pool = PLACEMENTS[placement](num_slots)
    for _ in range(num_slots):
        pool.place(1)
    held = {slot for start, length in taken.items() for slot in range(start, start + length)}
    for slot in sorted(set(range(num_slots)) - held):
        pool.release(slot, 1)
    return pool


def random_ranges(random: Random, num_slots: int = NUM_SLOTS) -> dict[int, int]:
    """Ranges with holes between some of them, and no range next to the same range."""
    taken: dict[int, int] = {}
    slot = random.randint(0, 4)
    while slot < num_slots - 8:
        taken[slot] = random.randint(1, 6)
        slot += taken[slot] + random.choice((0, 1, 2, 3, 4, 5, 6))
    return taken


def best_fit(answer: Callable[[Holes, int], int | None]) -> None:
    """Checks `answer(holes, length)` against the library's pool."""

    def library(free: Holes, length: int) -> int | None:
        return filled(_between(free)).find(length)

    def draw(free: Holes, length: int, got: Any, right: int | None) -> Any:
        lane = {f"({start}, {size})": (start, size) for start, size in free}
        chosen = {
            name: {"asked": (start, length)} if isinstance(start, int) else {}
            for name, start in {"yours": got, "right": right}.items()
        }
        return lanes({"holes": lane, **chosen}, NUM_SLOTS)

    check(answer, library, _searches(), picture=draw)


def release(answer: Callable[[Holes, int, int], Holes]) -> None:
    """Checks `answer(holes, start, length)`, the holes after a range is given back."""

    def library(free: Holes, start: int, length: int) -> Holes:
        pool = filled(_between(free))
        pool.release(start, length)
        return pool.holes()

    def draw(free: Holes, start: int, length: int, got: Any, right: Holes) -> Any:
        return holes({"before": free, "released": [(start, length)], "yours": got, "right": right}, NUM_SLOTS)

    check(answer, library, _releases(), picture=draw)


def compact(answer: Callable[[dict[int, int]], list[tuple[int, int]]]) -> None:
    """Checks `answer(ranges)`: the moves (old start, new start) that pack the ranges against slot 0."""

    def library(ranges: dict[int, int]) -> list[tuple[int, int]]:
        return [(old, new) for old, new in slide_down(sorted(ranges.items())) if old != new]

    def draw(ranges: dict[int, int], got: Any, right: list[tuple[int, int]]) -> Any:
        names = {start: chr(97 + place) for place, start in enumerate(sorted(ranges))}
        versions = {"before": {names[start]: (start, length) for start, length in ranges.items()}}
        for side, moves in {"yours": got, "right": right}.items():
            places = {start: start for start in ranges}
            for move in moves if isinstance(moves, list) else []:
                if isinstance(move, tuple) and len(move) == 2 and move[0] in places:
                    places[move[0]] = move[1]
            versions[side] = {names[old]: (new, ranges[old]) for old, new in places.items()}
        return lanes(versions, NUM_SLOTS)

    random = Random(3)
    cases = [(random_ranges(random),) for _ in range(50)]
    check(answer, library, cases, picture=draw)


def _between(free: Holes, num_slots: int = NUM_SLOTS) -> dict[int, int]:
    """The ranges that leave these holes."""
    ends = [0, *(start + length for start, length in free)]
    starts = [*(start for start, _ in free), num_slots]
    return {end: start - end for end, start in zip(ends, starts, strict=True) if start > end}


def _searches(seed: int = 1, count: int = 60) -> Iterator[tuple[Holes, int]]:
    random = Random(seed)
    for _ in range(count):
        yield filled(random_ranges(random)).holes(), random.randint(1, 10)


def _releases(seed: int = 2, count: int = 60) -> Iterator[tuple[Holes, int, int]]:
    random = Random(seed)
    for _ in range(count):
        taken = random_ranges(random)
        start = random.choice(list(taken))
        yield filled(taken).holes(), start, taken[start]
