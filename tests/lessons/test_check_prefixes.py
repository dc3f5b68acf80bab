"""Lesson 9's checks tell a wrong answer from a right one."""

import pytest

from lessons.checks import prefixes
from tests.lessons.wrong import assert_caught


def by_content_alone(tokens, block_size):
    return prefixes.cut(tokens, block_size)[: len(tokens) // block_size]


def by_content_and_place(tokens, block_size):
    return list(enumerate(by_content_alone(tokens, block_size)))


def names_the_partial_block(tokens, block_size):
    return [tokens[: start + block_size] for start in range(0, len(tokens), block_size)]


def leaves_nothing_to_compute(names, cached, num_tokens, block_size):
    return next((place for place, name in enumerate(names) if name not in cached), len(names))


def counts_behind_a_gap(names, cached, num_tokens, block_size):
    return sum(name in cached for name in names[: (num_tokens - 1) // block_size])


def first_block_first(cached, names, capacity):
    for name in names:
        cached.pop(name, None)
        cached[name] = None
        if len(cached) > capacity:
            del cached[next(iter(cached))]


def first_in_first_out(cached, names, capacity):
    for name in reversed(names):
        cached[name] = None
        if len(cached) > capacity:
            del cached[next(iter(cached))]


@pytest.mark.parametrize(
    ("check", "wrong"),
    [
        (prefixes.block_names, by_content_alone),
        (prefixes.block_names, by_content_and_place),
        (prefixes.block_names, names_the_partial_block),
        (prefixes.num_hits, leaves_nothing_to_compute),
        (prefixes.num_hits, counts_behind_a_gap),
        (prefixes.num_hits, lambda *case: None),
        (prefixes.touch, first_block_first),
        (prefixes.touch, first_in_first_out),
        (prefixes.touch, lambda *case: None),
    ],
)
def test_a_wrong_answer_is_shown_with_a_picture(monkeypatch, check, wrong):
    assert_caught(monkeypatch, check, wrong)
