"""The visualizer's page under Streamlit's AppTest: no browser, but all of Python's side."""

import csv
import json
import subprocess
import sys
import tomllib
from pathlib import Path
from random import Random
from unittest.mock import patch

import pytest
from streamlit.testing.v1 import AppTest

from app.address import MAIN_DIALS, MORE_DIALS
from app.commands import serve
from app.exports import all_files
from app.fields import FIELDS, choices_of
from app.own_trace import MAX_UPLOAD_MB, read_upload
from app.playground import native, nth
from app.presets import PRESETS
from app.quiz import draw
from app.recorded import recording_of
from sim import Config, InputError, Trace, simulate
from tests.app.visiting import PAGE, address, beside, shown, visit
from tests.waiting import wait_for


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
    assert len(told) == 6
    assert any("step=-1x: must be a number" in text for text in told)
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
    assert beside(page.sidebar, "step_rule") == [error.value], (
        "the message stands with the field that it names first"
    )
    page.checkbox(key="chunked_prefill").uncheck().run()
    assert shown(page)["replay"]


@pytest.mark.parametrize(
    ("dial", "value"), [("max_len", "2"), ("pool_tokens", "64"), ("max_batch_tokens", "1")]
)
def test_a_trace_that_cannot_be_served_gets_one_line_beside_the_dial(dial: str, value: str) -> None:
    page = visit(trace="four-requests", a="paged", b="paged-swap", **{dial: value})  # all are longer
    assert not page.exception
    (error,) = page.error
    assert "\n" not in error.value
    assert error.value.startswith("paged: no request could run: ")
    assert beside(page.sidebar, dial) == [error.value]
    assert not page.get("bidi_component")


def test_a_seed_in_the_address_draws_the_questions() -> None:
    replay = shown(visit(seed="7"))["replay"]
    assert replay["quiz"]["seed"] == 7
    run = recording_of(simulate(Trace.read("demo"), Config(pool_tokens=4096, max_len=512)))
    asked = [one["ask"] for one in replay["quiz"]["questions"] if one["side"] == 1]
    assert asked == [question.ask for question in draw(run, Random(7), 3)]
    other = [one["ask"] for one in shown(visit(seed="8"))["replay"]["quiz"]["questions"] if one["side"] == 1]
    assert other != asked


def test_every_main_dial_is_made_from_its_field() -> None:
    page = visit()
    for name in (*MAIN_DIALS, *MORE_DIALS):
        kind = "selectbox" if choices_of(name) else None
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
    page.selectbox(key="trace").select("upload").run()
    assert not page.exception
    assert "Choose a trace file" in page.info[0].value


def test_a_file_is_served_and_garbage_is_told_in_its_place() -> None:
    page = visit()
    page.selectbox(key="trace").select("upload").run()
    line = b'{"id": "a", "arrival": 0, "prompt": 8, "output": 2}\n'
    page.file_uploader(key="uploaded").upload("mine.jsonl", line).run()
    assert shown(page)["replay"]["trace"]["name"] == "mine.jsonl"
    page.file_uploader(key="uploaded").upload("mine.jsonl", b"\x00\xff\xfe garbage").run()
    assert not page.exception
    assert not page.get("bidi_component")
    (error,) = page.error
    assert error.value.startswith("mine.jsonl")
    assert "\n" not in error.value
    page.file_uploader(key="uploaded").set_value(None).run()
    assert "Choose a trace file" in page.info[0].value


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


def test_pasted_text_is_served_and_garbage_is_told_beside_it() -> None:
    page = visit()
    page.selectbox(key="trace").select("paste").run()
    assert page.info[0].value.startswith("Paste a trace")
    page.text_area(key="pasted").set_value('{"id": "a", "arrival": 0, "prompt": 8, "output": 2}').run()
    assert shown(page)["replay"]["requests"] == [["a", 8, 2, 2]]
    page.text_area(key="pasted").set_value("<html>no trace</html>").run()
    assert not page.exception
    assert not page.get("bidi_component")
    assert page.error[0].value.startswith("pasted text")


def test_a_link_carries_a_table() -> None:
    page = visit(trace="table", rows="0:240:17;0.5:64:65")
    assert shown(page)["replay"]["requests"] == [["r0", 240, 17, 17], ["r1", 64, 65, 65]]
    assert address(page) == {"trace": "table", "rows": "0:240:17;0.5:64:65"}


def test_a_table_in_a_link_that_is_none_is_told_and_passed_over() -> None:
    page = visit(trace="table", rows="0:240;x")
    assert shown(page)["replay"]["trace"]["name"] == "demo"
    assert "row 1, '0:240': must be arrival:prompt:output" in page.warning[0].value


def test_a_table_begins_with_what_was_shown_before() -> None:
    page = visit(trace="four-requests")
    page.selectbox(key="trace").select("table").run()
    assert shown(page)["replay"]["requests"][0][1:] == [240, 17, 17]
    assert address(page)["rows"].startswith("0:240:17;0:384:129;")


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_sets_trace_sides_and_pool_and_says_its_point(name: str) -> None:
    page = visit(pool_tokens="2048", block_size="8")
    page.get("button_group")[0].set_value(name).run()
    replay = shown(page)["replay"]
    assert replay["trace"]["name"] == PRESETS[name].trace
    assert replay["sides"][1]["cell_slots"] == 16, "what it does not set is back at its default"
    assert any(PRESETS[name].point[:40] in html.value for html in page.get("html"))
    link = visit(**address(page))
    assert shown(link)["replay"]["id"] == replay["id"], "its address restores it"


def test_coming_back_to_the_page_finds_it_as_it_was_left() -> None:
    page = visit(a="oracle")
    page.number_input(key="block_size").set_value(8).run()
    back = AppTest.from_file(PAGE, default_timeout=60)
    back.session_state["kept"] = page.session_state[
        "kept"
    ]  # Streamlit forgets what another page does not draw
    back.run()
    assert [side["name"] for side in shown(back)["replay"]["sides"]] == ["contiguous (oracle)", "paged"]
    assert shown(back)["replay"]["sides"][1]["cell_slots"] == 8


def test_exports_are_offered_and_made_when_asked_for() -> None:
    page = visit()
    labels = [button.label for button in page.get("download_button")]
    assert len(labels) == 7
    assert "Spans for Perfetto (JSON)" in labels
    trace = Trace.read("demo")
    runs = [
        simulate(trace, Config(allocator=name, pool_tokens=4096, max_len=512)) for name in ("max", "paged")
    ]
    files = all_files(runs)
    for place, (run, side) in enumerate(zip(runs, shown(page)["replay"]["sides"], strict=True)):
        events = [json.loads(line) for line in nth(files, "events", place).splitlines()]
        assert events == [json.loads(json.dumps(event.as_json())) for event in run.events]
        rows = list(csv.DictReader(nth(files, "series", place).decode().splitlines()))
        steps = [frame for frame, batch in enumerate(side["columns"]["batch"]) if batch]
        assert [int(row["live"]) for row in rows] == [side["columns"]["live"][frame] for frame in steps]
    spans = json.loads(nth(files, "perfetto", 0))["traceEvents"]
    processes = [one["args"]["name"] for one in spans if one["name"] == "process_name"]
    assert processes == ["max-simulated", "paged-simulated"]
    served = [json.loads(line)["id"] for line in native(trace).splitlines()]
    assert served == [request.id for request in trace.requests]


def test_the_measured_side_runs_and_stands_beside_the_simulated_one() -> None:
    page = visit(mode="sources", first="2", seed="7")
    page.button[0].click().run()
    job = page.session_state["playground_job"]
    wait_for(lambda: not job.is_active, "the run to end", 120)
    with patch("app.playground.save") as save:
        page.run()
    assert any("every block table and every slot agrees" in html.value for html in page.get("html"))
    replay = shown(page)["replay"]
    assert [side["source"] for side in replay["sides"]] == ["simulated", "measured"]
    assert len(replay["requests"]) == 2
    assert replay["quiz"]["seed"] == 7
    files = {label: make() for label, _, make in (call.args for call in save.call_args_list)}
    assert len(files) == 7
    assert b'"measured"' in files["Replay, one offline page (HTML)"]
    assert all(files.values())
    assert files["Ledger of B by step (CSV)"] == files["Ledger of A by step (CSV)"], "in slots the two agree"


def test_the_measured_side_waits_for_a_click() -> None:
    page = visit(mode="sources")
    assert not page.exception
    assert not page.get("bidi_component")
    assert [button.label for button in page.button] == ["Run the engine"]
    assert address(page) == {"mode": "sources"}


def test_the_app_listens_on_this_machine_only_and_takes_small_uploads() -> None:
    settings = tomllib.loads((Path(PAGE).parents[1] / ".streamlit" / "config.toml").read_text())["server"]
    assert settings["address"] == "localhost"
    assert settings["maxUploadSize"] == MAX_UPLOAD_MB
    by_command = next(option for option in serve.app.params if option.name == "host")
    assert by_command.default == "localhost"


def test_the_start_page_waits_for_no_heavy_library() -> None:
    """PyTorch alone takes seconds to import, and the first sentence is to be there within five."""
    heavy = ("torch", "numba", "matplotlib", "transformers")
    program = f"import sys, app.playground; print([name for name in {heavy!r} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
