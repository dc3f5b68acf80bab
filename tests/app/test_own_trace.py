"""A visitor's own trace: tables and addresses, without a page."""

import pytest

from app.own_trace import (
    MOST_IN_ADDRESS,
    from_address,
    read_table,
    read_text,
    table_of,
    to_address,
)
from sim import InputError, Trace


def test_a_table_gives_the_trace_that_it_was_made_of():
    trace = Trace.read("shared-prefix").first(5)
    assert read_table(table_of(trace.requests)).requests == trace.requests


def test_empty_rows_are_left_out_and_a_row_without_an_id_gets_one():
    nan = float("nan")
    rows = [{"id": None, "arrival": 0, "prompt": 4, "output": 2}, {"id": "", "arrival": nan}, {}]
    assert [one.id for one in read_table(rows).requests] == ["r0"]


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([], "table: it has no row"),
        ([{"arrival": 0, "prompt": 4}], "table, row 1"),
        (
            [{"arrival": 0, "prompt": 4, "output": 1}, {"arrival": 0, "prompt": 0, "output": 1}],
            "table, row 2",
        ),
        ([{"arrival": -1, "prompt": 4, "output": 1}], "table, row 1"),
    ],
)
def test_a_bad_row_is_named(rows, told):
    with pytest.raises(InputError) as caught:
        read_table(rows)
    assert str(caught.value).startswith(told)
    assert "\n" not in str(caught.value)


def test_an_address_carries_arrivals_prompts_and_outputs_without_loss():
    rows = table_of(Trace.read("demo").first(40).requests)
    assert (
        read_table(from_address(to_address(rows))).requests
        == read_table(
            [{name: row[name] for name in ("arrival", "prompt", "output")} for row in rows]
        ).requests
    )


def test_a_table_that_says_more_is_not_put_into_an_address():
    assert to_address([{"arrival": 0, "prompt": 4, "output": 1, "n": 4}]) is None
    assert to_address([{"arrival": 0, "prompt": 4, "output": 1}] * (MOST_IN_ADDRESS + 1)) is None


@pytest.mark.parametrize("text", ["", "0:1", "0:1:x", "0:1:2;", "a" * 100_000, "0:1:1;" * 100 + "0:1:1"])
def test_an_address_that_is_no_table_is_refused_in_one_short_line(text):
    with pytest.raises(InputError) as caught:
        from_address(text)
    assert len(str(caught.value)) < 150


def test_pasted_text_may_have_any_format():
    azure = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n"
    (request,) = read_text(azure).requests
    assert (request.prompt, request.output) == (374, 44)
