"""Lesson 11's checks tell a wrong answer from a right one."""

import pytest

from lessons.checks import measured
from tests.lessons.wrong import assert_caught


def looks_at_the_first_number(bits):
    return int((bits[:, 0, 0, :, 0, 0] != measured.SENTINEL).sum()), 0


def sees_no_tears(bits):
    return measured.scan_of(bits)[0], 0


def takes_the_empty_for_reserved(written, tables, final, block_size):
    right = measured.ledger_of(written, tables, final, block_size)
    return {**right, "reserved": right["reserved"] + right["internal"], "internal": 0}


def tells_the_last(simulated, measured):
    steps = range(len(simulated), 0, -1)
    wrong = (step for step in steps if simulated[step - 1] != measured[step - 1])
    step = next(wrong, None)
    return step and (step, min({*simulated[step - 1], *measured[step - 1]}))


@pytest.mark.parametrize(
    ("check", "wrong"),
    [
        (measured.scan, looks_at_the_first_number),
        (measured.scan, sees_no_tears),
        (measured.ledger, takes_the_empty_for_reserved),
        (measured.ledger, lambda *case: None),
        (measured.first_difference, tells_the_last),
        (measured.first_difference, lambda simulated, measured: None),
    ],
)
def test_a_wrong_answer_is_shown_with_a_picture(monkeypatch, check, wrong):
    assert_caught(monkeypatch, check, wrong)
