"""Lesson 10's checks tell a wrong answer from a right one."""

import pytest

from lessons.checks import block_size
from tests.lessons.wrong import assert_caught


def shares_the_block_in_part(prefix, prompt, num_requests, block_size):
    shared = -(-prefix // block_size)
    return (shared + num_requests * (-(-prompt // block_size) - shared)) * block_size


@pytest.mark.parametrize(
    ("check", "wrong"),
    [
        (block_size.waste, lambda lengths, size: 100 * sum(-n % size for n in lengths) / sum(lengths)),
        (block_size.waste, lambda lengths, size: None),
        (block_size.sharing, shares_the_block_in_part),
        (block_size.sharing, lambda prefix, prompt, count, size: count * -(-prompt // size) * size),
        (block_size.pieces, len),
        (block_size.pieces, lambda table: 1),
    ],
)
def test_a_wrong_answer_is_shown_with_a_picture(monkeypatch, check, wrong):
    assert_caught(monkeypatch, check, wrong)
