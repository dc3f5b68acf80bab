"""What a check says of a wrong answer leads to the fault."""

import numpy as np
import pytest

from lessons.browser.cells import run_cell
from lessons.checks import Wrong, cache, contiguous, core, holes, paging


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch):
    monkeypatch.setattr(core, "display", lambda picture: None)


def message_of(check, wrong) -> list[str]:
    with pytest.raises(Wrong) as caught:
        check(wrong)
    return str(caught.value).splitlines()


def test_the_arguments_are_named_and_both_answers_told():
    def rows_computed(prompt, output, has_cache):
        return prompt + output if has_cache else sum(range(prompt, prompt + output))

    assert message_of(cache.counted_rows, rows_computed) == [
        "rows_computed(prompt=25, output=3, has_cache=True)",
        "should be 27, yours is 28",
        "(1 case before this one: right)",
    ]


def test_of_an_answer_with_parts_only_the_wrong_ones_are_told():
    def ledger_of_one(prompt, emitted, output, held):
        return prompt + emitted - 1, output - emitted, held - prompt - output

    def grow(table, stored, num_tokens, block_size, free):
        table.extend(free.pop() for _ in range(min(num_tokens, len(free))))
        return True

    assert message_of(contiguous.waste_of_one, ledger_of_one)[1:] == ["internal should be 17, yours is 16"]
    assert message_of(paging.grow, grow) == [
        "grow(table=[1, 15, 14, 5], stored=18, num_tokens=1, block_size=5, free=[2, 10, 4])",
        "table should be [1, 15, 14, 5], yours is [1, 15, 14, 5, 4]",
        "free should be [2, 10, 4], yours is [2, 10]",
    ]


def test_an_answer_that_lacks_a_part_is_told_which_parts_there_are():
    wrong = message_of(cache.decode_step, lambda *arrays: arrays[0])
    assert "(output, keys, values), yours is array(" in "".join(wrong)
    assert message_of(contiguous.waste_of_one, lambda *case: list(contiguous.split(*case)))[-1] == (
        "should be (13, 13, 17) (live, reserved, internal), yours is [13, 13, 17]"
    )


def test_a_right_answer_may_change_what_it_is_given(capsys):
    def best_fit(free, length):
        free.sort(key=lambda hole: hole[1])
        return next((start for start, size in free if size >= length), None)

    def compact(ranges):
        moves, end = [], 0
        while ranges:
            start = min(ranges)
            moves += [(start, end)] * (start != end)
            end += ranges.pop(start)
        return moves

    holes.best_fit(best_fit)
    holes.compact(compact)
    assert capsys.readouterr().out == "best_fit: right in all 60 cases\ncompact: right in all 50 cases\n"


def test_an_error_in_the_answer_says_in_which_case_it_happened():
    def best_fit(free, length):
        return min((size, start) for start, size in free if size >= length)[1]

    with pytest.raises(ValueError, match="empty") as caught:
        holes.best_fit(best_fit)
    assert caught.value.__notes__ == [
        "This happened in best_fit(free=[(0, 4), (6, 6), (16, 3), (24, 1), (28, 1), (35, 5)], length=8)"
    ]


def test_the_page_in_the_browser_says_so_too():
    code = "from lessons.checks import paging\npaging.slot_of(lambda table, position, size: table[99])"
    (told,) = run_cell(code, "cell 1", {})
    assert told["name"] == "IndexError"
    assert told["text"].splitlines()[1] == "This happened in <lambda>(table=[2, 4], position=1, size=1)"


def test_a_list_of_arrays_is_as_good_as_a_tuple():
    cache.decode_step(lambda *case: list(cache.attend_all(*case)))
    assert message_of(cache.decode_step, lambda *case: [np.zeros(3)])[1].endswith(
        "yours is [array([0., 0., 0.])]"
    )
