"""Lesson 8's checks tell a wrong answer from a right one."""

import pytest

from lessons.checks import preemption
from tests.lessons.wrong import assert_caught


def preempts_the_needy(stored, block_size, free):
    running = []
    for place, count in enumerate(stored):
        needed = count % block_size == 0
        if needed and not free:
            free += -(-count // block_size)
        else:
            free -= needed
            running.append(place)
    return running


def preempts_the_oldest(stored, block_size, free):
    running, place = list(range(len(stored))), 0
    while place < len(running):
        needed = stored[running[place]] % block_size == 0
        if needed and not free:
            free += -(-stored[running.pop(0)] // block_size)
            place = max(0, place - 1)
        else:
            free, place = free - needed, place + 1
    return running


def swaps_one_way(prompt, emitted, block_size, token_s, block_s):
    blocks = -(-(prompt + emitted - 1) // block_size)
    return "swap" if blocks * block_s < (prompt + emitted) * token_s else "recompute"


def recomputes_the_prompt_only(prompt, emitted, block_size, token_s, block_s):
    blocks = -(-(prompt + emitted - 1) // block_size)
    return "swap" if 2 * blocks * block_s < prompt * token_s else "recompute"


@pytest.mark.parametrize(
    ("check", "wrong"),
    [
        (preemption.decode_step, preempts_the_needy),
        (preemption.decode_step, preempts_the_oldest),
        (preemption.decode_step, lambda stored, block_size, free: None),
        (preemption.cheaper, swaps_one_way),
        (preemption.cheaper, recomputes_the_prompt_only),
    ],
)
def test_a_wrong_answer_is_shown_with_a_picture(monkeypatch, check, wrong):
    assert_caught(monkeypatch, check, wrong)


def test_the_cases_have_preemptions_of_one_request_and_of_several():
    lost = [len(case[0]) - len(running) for case, running in preemption._steps()]
    assert lost.count(1) > 20
    assert max(lost) > 1
