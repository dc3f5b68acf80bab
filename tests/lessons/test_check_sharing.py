"""Lesson 7's checks tell a wrong answer from a right one."""

import pytest

from lessons.checks import sharing
from tests.lessons.wrong import assert_caught


def writes_in_place(table, position, refs, free, block_size):
    return None


def always_copies(table, position, refs, free, block_size):
    source = table[position // block_size]
    table[position // block_size] = destination = free.pop()
    refs[source] -= 1
    refs[destination] = 1
    return source, destination


def frees_what_others_hold(table, refs, free):
    while table:
        block = table.pop()
        refs[block] = 0
        free.append(block)


def gives_up_first(tables, parents, refs, free):
    for block in (block for table in tables for block in reversed(table)):
        refs[block] -= 1
        if refs[block] == 0:
            free.append(block)
    new = [tables[parent][:] for parent in parents]
    for block in (block for table in new for block in table):
        refs[block] += 1
    return new


@pytest.mark.parametrize(
    ("check", "wrong"),
    [
        (sharing.write, writes_in_place),
        (sharing.write, always_copies),
        (sharing.release, frees_what_others_hold),
        (sharing.release, lambda table, refs, free: free.extend(table)),
        (sharing.reorder, gives_up_first),
        (sharing.reorder, lambda tables, parents, refs, free: None),
    ],
)
def test_a_wrong_answer_is_shown_with_a_picture(monkeypatch, check, wrong):
    assert_caught(monkeypatch, check, wrong)
