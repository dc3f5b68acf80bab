"""The visualizer's page under Streamlit's AppTest: no browser, but all of Python's side."""

import json
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from app.sidebar import FIELDS, MAIN_DIALS, MAX_UPLOAD_MB, MORE_DIALS, choices_of, read_upload
from sim import Config, InputError, Trace, simulate

PAGE = str(Path(__file__).parents[2] / "app" / "visualizer.py")


def visit(**query: str) -> AppTest:
    page = AppTest.from_file(PAGE, default_timeout=60)
    for name, value in query.items():
        page.query_params[name] = value
    return page.run()


def shown(page: AppTest) -> dict[str, Any]:
    """What the player is given. Fails when the page shows no player, or an exception."""
    assert not page.exception
    return json.loads(page.get("bidi_component")[0].proto.json)


def address(page: AppTest) -> dict[str, str]:
    """AppTest has lists for what a script has set, and text for what a test has."""
    return {name: value if isinstance(value, str) else value[-1] for name, value in page.query_params.items()}


def test_the_start_page_says_who_wastes_how_much_without_a_click() -> None:
    replay = shown(visit())["replay"]
    assert replay["trace"]["name"] == "demo"
    assert [side["name"] for side in replay["sides"]] == ["contiguous (max)", "paged"]
    runs = [
        simulate(Trace.read("demo"), Config(allocator=name, pool_tokens=4096, max_len=512))
        for name in ("max", "paged")
    ]
    for run in runs:
        assert f"wastes {run.report()['waste_percent']:.1f} %" in replay["verdict"]


def test_the_page_writes_nothing_into_a_plain_address() -> None:
    assert not visit().query_params


def test_a_link_restores_trace_sides_dials_and_moment() -> None:
    page = visit(trace="fragmentation", a="oracle", block_size="32", pool_tokens="2048", step="42")
    data = shown(page)
    assert data["moment"] == 42
    assert data["replay"]["trace"]["name"] == "fragmentation"
    assert [side["name"] for side in data["replay"]["sides"]] == ["contiguous (oracle)", "paged"]
    assert data["replay"]["sides"][1]["cell_slots"] == 32
    assert data["replay"]["sides"][1]["pool"] == 2048
    assert address(page)["a"] == "oracle"


def test_what_is_wrong_in_an_address_is_told_and_passed_over() -> None:
    page = visit(trace="dmo", a="pagged", block_size="many", max_seqs="-3", chunked_prefill="yes", step="-1x")
    data = shown(page)
    assert data["moment"] is None
    told = [warning.value for warning in page.warning]
    assert len(told) == 5
    assert any("block_size=many: must be a number" in text for text in told)
    assert any("a=pagged: known are max" in text for text in told)
    assert data["replay"]["sides"][1]["cell_slots"] == 16


def test_the_moment_that_the_player_reports_goes_into_the_address() -> None:
    page = visit()
    page.session_state["player"] = {"step": 7}
    page.run()
    assert address(page)["step"] == "7"
    assert shown(page)["moment"] is None, "the player is not sent back to where it comes from"


def test_choosing_a_side_changes_the_replay_and_the_address() -> None:
    page = visit()
    before = shown(page)["replay"]["id"]
    page.selectbox(key="b").select("pow2").run()
    replay = shown(page)["replay"]
    assert replay["sides"][1]["name"] == "contiguous (pow2)"
    assert replay["id"] != before
    assert address(page)["b"] == "pow2"


def test_a_trace_brings_the_pool_that_it_was_made_for() -> None:
    page = visit()
    page.selectbox(key="trace").select("thrashing").run()
    assert page.number_input(key="max_len").value == 1024
    page.selectbox(key="trace").select("four-requests").run()
    assert page.number_input(key="pool_tokens").value is None
    assert shown(page)["replay"]["sides"][1]["pool"] == 15_728


def test_dials_that_do_not_go_together_get_one_line_beside_them() -> None:
    page = visit(step_rule="prefill-first", chunked_prefill="True")
    assert not page.exception
    assert not page.get("bidi_component")
    (error,) = page.sidebar.error
    assert error.value.startswith("--step-rule prefill-first with --chunked-prefill")
    page.checkbox(key="chunked_prefill").uncheck().run()
    assert shown(page)["replay"]


def test_a_trace_that_cannot_be_served_gets_one_line() -> None:
    page = visit(trace="demo", pool_tokens="4096", max_len="2")  # every request is longer
    assert not page.exception
    (error,) = page.error
    assert "\n" not in error.value
    assert error.value.startswith("max: no request could run: r0 needs")


def test_every_main_dial_is_made_from_its_field() -> None:
    page = visit()
    for name in (*MAIN_DIALS, *MORE_DIALS):
        kind = "selectbox" if choices_of(FIELDS[name]) else None
        widgets = [page.selectbox] if kind else [page.number_input, page.checkbox]
        found = [widget for group in widgets for widget in group if widget.key == name]
        assert len(found) == 1, name
        assert found[0].help == FIELDS[name].metadata["help"]


def test_two_visitors_do_not_see_each_others_choices() -> None:
    one, other = visit(a="oracle"), visit()
    one.number_input(key="block_size").set_value(8).run()
    other.run()
    assert shown(one)["replay"]["sides"][1]["cell_slots"] == 8
    assert shown(other)["replay"]["sides"][1]["cell_slots"] == 16


def test_a_file_of_ones_own_is_asked_for() -> None:
    page = visit()
    page.selectbox(key="trace").select("a file of mine").run()
    assert not page.exception
    assert "Choose a trace file" in page.sidebar.info[0].value


def test_an_upload_is_read_and_called_by_its_name() -> None:
    data = b'{"id": "a", "arrival": 0, "prompt": 8, "output": 2}\n'
    assert read_upload("mine.jsonl", data).name == "mine.jsonl"


@pytest.mark.parametrize(
    "data", [b"", b"\x00\xff\xfe garbage", b"\x1f\x8b broken gzip", b"a,b\n1,2\n", b'{"id": "a"}\n']
)
def test_a_bad_upload_is_refused_in_one_line_that_names_it(data: bytes) -> None:
    with pytest.raises(InputError, match=r"^mine\.jsonl") as caught:
        read_upload("mine.jsonl", data)
    assert "\n" not in str(caught.value)
    assert "/tmp" not in str(caught.value)


def test_an_upload_cannot_choose_where_it_is_written() -> None:
    with pytest.raises(InputError, match=r"^passwd: is empty"):
        read_upload("../../etc/passwd", b"")


def test_an_upload_that_is_too_large_is_refused_with_both_numbers() -> None:
    with pytest.raises(InputError, match=f"21 MiB; the page takes {MAX_UPLOAD_MB}"):
        read_upload("large.csv", b"x" * (21 * 2**20))
