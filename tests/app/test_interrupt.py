"""Ctrl-C leaves a whole result, and traces of any length are read as the run goes on."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from app import streaming
from app.cli import run as pagelab
from sim import Trace
from sim.series import Row
from sim.serve import OnStep
from tests.waiting import wait_for

ROOT = Path(__file__).parents[2]


def interrupted(*options: str, when=lambda: time.sleep(6) or True) -> tuple[dict, str]:
    """The report and what was said of a run that got a Ctrl-C."""
    command = [sys.executable, "-m", "app", "simulate", *options, "--json"]
    process = psutil.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for(when)
    process.send_signal(signal.SIGINT)
    out, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said.splitlines()[-1] == "pagelab: interrupted: the report says what was done up to there"
    assert "Traceback" not in said
    return json.loads(out), said


def check_partial(document: dict) -> None:
    (run,) = document["runs"]
    requests = run["requests"]
    assert run["stopped_early"]
    assert requests["arrived"] == requests["finished"] + requests["rejected"] + requests["unfinished"]
    assert 0 < requests["finished"] < requests["arrived"]
    assert sum(run["ledger"][name] for name in run["ledger"] if name != "pool") == pytest.approx(
        run["ledger"]["pool"]
    )


def test_a_streamed_run_stops_where_it_is():
    document, _ = interrupted("alpaca-like", "--requests", "100000000", "--pool-blocks", "4000")
    check_partial(document)
    assert document["trace"]["requests"] < 10_000_000


def test_a_run_with_events_leaves_them_whole(tmp_path):
    events = tmp_path / "events.jsonl"

    def is_writing() -> bool:
        return any(file.stat().st_size > 2_000_000 for file in tmp_path.iterdir())

    document, _ = interrupted("sharegpt-like", "--events", str(events), "--check", when=is_writing)
    check_partial(document)
    lines = events.read_bytes().splitlines()
    assert json.loads(lines[-1])["kind"] in ("step", "finish", "free")
    assert sum(b'"kind":"step"' in line for line in lines) == document["runs"][0]["steps"]


def ctrl_c_in_step(step: int) -> Callable[..., OnStep]:
    """In place of what shows progress: somebody presses Ctrl-C while that step is shown."""

    def listener(row: Row, num_ended: int) -> None:
        if row.step == step:
            signal.raise_signal(signal.SIGINT)

    return lambda on_progress: listener


EXECUTED = ("demo", "--pool-tokens", "4096", "--max-len", "512", "--allocator", "max", "--allocator", "paged")


def test_a_measured_run_stops_where_it_is(capsys, monkeypatch):
    monkeypatch.setattr("app.commands.measure.each_step", ctrl_c_in_step(70))
    assert pagelab(["measure", *EXECUTED, "--clock", "modelled", "--timing", "unit", "--json"]) == 130
    printed = capsys.readouterr()
    assert printed.err.endswith("pagelab: interrupted: the report says what was done up to there\n")
    document = json.loads(printed.out)
    check_partial(document)
    assert document["runs"][0]["steps"] == 70


def test_what_was_executed_before_a_ctrl_c_is_compared(capsys, monkeypatch):
    monkeypatch.setattr("app.commands.compare.each_step", ctrl_c_in_step(70))
    assert pagelab(["compare", *EXECUTED, "--json"]) == 130
    document = json.loads(capsys.readouterr().out)
    simulated, measured = document["runs"]
    for run in (simulated, measured):
        check_partial({"runs": [run]})
        assert run["steps"] == 70
    assert simulated["ledger"] == measured["ledger"]
    (verdict,) = document["agreement"]
    assert (verdict["steps_compared"], verdict["first_difference"]) == (70, None)


def test_a_streamed_file_gives_the_report_of_the_whole_but_for_its_lists(tmp_path, capsys, monkeypatch):
    path = tmp_path / "long.jsonl"
    Trace.read("sharegpt-like").write(path)
    options = ["simulate", str(path), "--first", "700", "--rate-scale", "3", "--pool-blocks", "300", "--json"]
    assert pagelab([*options, "--quiet"]) == 0
    whole = json.loads(capsys.readouterr().out)
    monkeypatch.setattr("sim.trace.pieces.PIECE", 300)
    assert pagelab([*options, "--stream"]) == 0
    streamed = json.loads(capsys.readouterr().out)
    monkeypatch.setattr(streaming, "LARGE_BYTES", 1000)
    assert pagelab(options) == 0
    unasked = capsys.readouterr()
    assert json.loads(unasked.out) == streamed
    assert "is streamed, as with --stream" in unasked.err
    assert streamed["trace"] == {**whole["trace"], "skipped": None}
    for name in ("requests", "steps", "time_s", "idle_s", "preemptions", "ledger", "throughput"):
        assert streamed["runs"][0][name] == whole["runs"][0][name], name
    assert streamed["runs"][0]["per_request"] is None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["demo", "--stream"], "demo: No such file"),
        (["demo", "--requests", "5"], "only sharegpt-like"),
        (["alpaca-like", "--requests", "5", "--events", "e.jsonl"], "--events with --stream"),
        (["alpaca-like", "--requests", "5", "--check"], "--check with --stream"),
        (["alpaca-like", "--requests", "5", "--prefix-cache", "hash"], "prefix cache hash"),
        (["alpaca-like", "--requests", "5", "--rate", "3"], "need the whole trace"),
        (["alpaca-like", "--requests", "5", "--rate-scale", "0"], "rate scale 0.0: must be above 0"),
        (["alpaca-like", "--requests", "5", "--first", "0"], "first 0: must be at least 1 request"),
        (["alpaca-like", "--requests", "5", "--max-total", "1"], "holds no request: 5 were read"),
    ],
)
def test_what_cannot_be_streamed_is_refused_in_one_line(options, said, capsys):
    assert pagelab(["simulate", *options]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
