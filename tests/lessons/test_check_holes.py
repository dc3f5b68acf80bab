"""Lesson 3's checks tell a wrong answer from a right one."""

import pytest

from lessons.checks import holes
from tests.lessons.wrong import assert_caught


def first_fit(free, length):
    return next((start for start, size in free if size >= length), None)


def no_hole_of_exactly_the_length(free, length):
    fitting = [(size, start) for start, size in free if size > length]
    return min(fitting)[1] if fitting else None


def does_not_join(free, start, length):
    return sorted([*free, (start, length)])


def joins_behind_only(free, start, length):
    behind = dict(free).get(start + length, 0)
    kept = [hole for hole in free if hole[0] != start + length]
    return sorted([*kept, (start, length + behind)])


def highest_first(ranges):
    packed, end = [], 0
    for start in sorted(ranges):
        packed.append((start, end))
        end += ranges[start]
    return [move for move in reversed(packed) if move[0] != move[1]]


@pytest.mark.parametrize(
    ("check", "wrong"),
    [
        (holes.best_fit, first_fit),
        (holes.best_fit, no_hole_of_exactly_the_length),
        (holes.best_fit, lambda free, length: None),
        (holes.release, does_not_join),
        (holes.release, joins_behind_only),
        (holes.release, lambda *case: None),
        (holes.compact, highest_first),
        (holes.compact, lambda ranges: None),
    ],
)
def test_a_wrong_answer_is_shown_with_a_picture(monkeypatch, check, wrong):
    assert_caught(monkeypatch, check, wrong)
