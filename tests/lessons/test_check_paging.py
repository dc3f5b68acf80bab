"""Lesson 4's checks tell a wrong answer from a right one."""

import pytest

from lessons.checks import paging
from tests.lessons.wrong import assert_caught


def table_of_slots(table, position, block_size):
    return table[0] * block_size + position  # as if the blocks lay side by side


def takes_what_there_is(table, stored, num_tokens, block_size, free):
    while len(table) * block_size < stored + num_tokens:
        if not free:
            return False  # and keeps what it has
        table.append(free.pop())
    return True


def forgets_the_room_it_has(table, stored, num_tokens, block_size, free):
    needed = -(-num_tokens // block_size)
    if needed > len(free):
        return False
    table.extend(free.pop() for _ in range(needed))
    return True


def keeps_the_table(table, free):
    free.extend(reversed(table))


def first_block_first(table, free):
    free.extend(table)
    table.clear()


@pytest.mark.parametrize(
    ("check", "wrong"),
    [
        (paging.slot_of, table_of_slots),
        (paging.slot_of, lambda table, position, block_size: None),
        (paging.grow, takes_what_there_is),
        (paging.grow, forgets_the_room_it_has),
        (paging.grow, lambda *case: None),
        (paging.release, keeps_the_table),
        (paging.release, first_block_first),
        (lambda grow: paging.whole_server(grow, paging.release_one_by_one), forgets_the_room_it_has),
        (lambda grow: paging.whole_server(grow, paging.release_one_by_one), lambda *case: False),
        (lambda release: paging.whole_server(paging.grow_one_by_one, release), first_block_first),
    ],
)
def test_a_wrong_answer_is_shown_with_a_picture(monkeypatch, check, wrong):
    assert_caught(monkeypatch, check, wrong)
