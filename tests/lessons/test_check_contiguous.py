"""Lesson 2's checks tell a wrong answer from a right one."""

import pytest

from lessons.checks import contiguous
from tests.lessons.wrong import assert_caught


def counts_the_last_token(rule, prompt, output, max_len):
    return prompt + output if rule == "oracle" else contiguous.reserved(rule, prompt, output, max_len)


def passes_the_longest(rule, prompt, output, max_len):
    power = 1 << (output - 1).bit_length()
    return prompt + power if rule == "pow2" else contiguous.reserved(rule, prompt, output, max_len)


def doubles_a_power_of_two(rule, prompt, output, max_len):
    power = 1 << output.bit_length()
    return (
        min(prompt + power, max_len) if rule == "pow2" else contiguous.reserved(rule, prompt, output, max_len)
    )


@pytest.mark.parametrize(
    ("check", "wrong"),
    [
        (contiguous.length_of_range, counts_the_last_token),
        (contiguous.length_of_range, passes_the_longest),
        (contiguous.length_of_range, doubles_a_power_of_two),
        (contiguous.length_of_range, lambda *case: None),
        (contiguous.waste_of_one, lambda prompt, emitted, output, held: (prompt + emitted, 0, 0)),
        (contiguous.waste_of_one, lambda *case: None),
    ],
)
def test_a_wrong_answer_is_shown_with_a_picture(monkeypatch, check, wrong):
    assert_caught(monkeypatch, check, wrong)
