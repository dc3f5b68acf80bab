"""Contiguous placements against a slow, obvious model: one byte for each slot."""

import re
from random import Random

import pytest

from sim.alloc import PLACEMENTS

TAKEN = b"\x01"


class Slots:
    """The model: which slots are taken, and by definition alone where each placement would go."""

    def __init__(self, placement: str, num_slots: int) -> None:
        self.placement = placement
        self.taken = bytearray(num_slots)
        self.cursor = 0
        self.holes = self._find_holes()

    def _find_holes(self) -> list[tuple[int, int]]:
        if self.placement == "buddy":
            return sorted(self._chunks())
        return [(run.start(), len(run.group())) for run in re.finditer(rb"\x00+", self.taken)]

    def _chunks(self) -> list[tuple[int, int]]:
        """Largest free chunks: a chunk that is not wholly free is looked at in halves."""
        todo, free, start = [], [], 0
        for bit in reversed(range(len(self.taken).bit_length())):
            if len(self.taken) >> bit & 1:
                todo.append((start, 1 << bit))
                start += 1 << bit
        while todo:
            start, size = todo.pop()
            if TAKEN not in self.taken[start : start + size]:
                free.append((start, size))
            elif size > 1:
                todo += [(start, size // 2), (start + size // 2, size // 2)]
        return free

    def rounded(self, length: int) -> int:
        size = 1
        while self.placement == "buddy" and size < length:
            size *= 2
        return max(size, length)

    def where(self, length: int) -> int | None:
        fitting = [hole for hole in self.holes if hole[1] >= self.rounded(length)]
        if not fitting:
            return None
        by_size = sorted(fitting, key=lambda hole: hole[1])
        match self.placement:
            case "first-fit":
                return fitting[0][0]
            case "next-fit":
                return ([start for start, _ in fitting if start >= self.cursor] or [fitting[0][0]])[0]
            case "worst-fit":
                return next(start for start, size in fitting if size == by_size[-1][1])
            case _:  # best-fit, and buddy's smallest size
                return by_size[0][0]

    def mark(self, start: int, length: int, taken: int) -> None:
        size = self.rounded(length)
        assert self.taken[start : start + size] == bytes([1 - taken]) * size, "two owners, or freed twice"
        assert start + size <= len(self.taken)
        self.taken[start : start + size] = bytes([taken]) * size
        self.holes = self._find_holes()
        if taken:
            self.cursor = start + size


@pytest.mark.parametrize("name", PLACEMENTS)
@pytest.mark.parametrize("num_slots", [1, 7, 64, 100, 255])
def test_thousands_of_random_operations_go_where_the_model_says(name, num_slots):
    random = Random(num_slots)
    pool, model = PLACEMENTS[name](num_slots), Slots(name, num_slots)
    held: list[tuple[int, int]] = []
    for _ in range(4000):
        if held and random.random() < 0.48:
            start, length = held.pop(random.randrange(len(held)))
            pool.release(start, length)
            model.mark(start, length, 0)
        else:
            length = min(int(random.expovariate(8 / num_slots)) + 1, num_slots + 1)
            expected, holes = model.where(length), pool.holes()
            assert pool.find(length) == expected
            assert pool.holes() == holes, "find() changed something"
            assert pool.place(length) == expected
            if expected is None:
                assert pool.holes() == holes, "a placement that failed changed something"
                continue
            held.append((expected, length))
            model.mark(expected, length, 1)
        assert pool.holes() == model.holes
        assert pool.num_free == num_slots - sum(model.taken)
    for start, length in held:
        pool.release(start, length)
    assert pool.holes() == PLACEMENTS[name](num_slots).holes()
    assert pool.num_free == num_slots


@pytest.mark.parametrize("name", PLACEMENTS)
@pytest.mark.parametrize("num_slots", [1, 2, 12, 15, 100])
def test_the_longest_possible_range_fits_an_empty_pool_and_one_more_slot_does_not(name, num_slots):
    pool = PLACEMENTS[name](num_slots)
    assert pool.find(pool.largest_possible + 1) is None
    assert pool.find(pool.largest_possible) == 0
    assert pool.rounded(pool.largest_possible) == pool.largest_possible


def holes_of_2_6_and_3(name):
    """A pool of 16 with the holes [2, 4), [6, 12) and [13, 16)."""
    pool = PLACEMENTS[name](16)
    pieces = [(pool.place(length), length) for length in (2, 2, 2, 6, 1, 3)]
    for index in (1, 3, 5):
        pool.release(*pieces[index])
    assert pool.holes() == [(2, 2), (6, 6), (13, 3)]
    return pool


@pytest.mark.parametrize(
    ("name", "length", "start"),
    [
        ("first-fit", 2, 2), ("first-fit", 3, 6),
        ("best-fit", 2, 2), ("best-fit", 3, 13), ("best-fit", 4, 6),
        ("worst-fit", 2, 6), ("worst-fit", 6, 6),
    ],
)  # fmt: skip
def test_each_fit_chooses_its_hole(name, length, start):
    assert holes_of_2_6_and_3(name).place(length) == start


def test_next_fit_goes_on_from_the_last_placement_and_wraps():
    pool = PLACEMENTS["next-fit"](16)
    pieces = [(pool.place(4), 4) for _ in range(3)]
    pool.release(*pieces[0])
    assert pool.place(2) == 12  # not the hole at 0
    assert pool.place(2) == 14
    assert pool.place(2) == 0


def test_released_neighbours_become_one_hole_from_both_sides():
    pool = PLACEMENTS["first-fit"](12)
    a, b, c = ((pool.place(4), 4) for _ in range(3))
    pool.release(*a)
    pool.release(*c)
    assert pool.holes() == [(0, 4), (8, 4)]
    pool.release(*b)
    assert pool.holes() == [(0, 12)]
