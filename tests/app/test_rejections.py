"""Who was rejected is told beside the table, with the option that lets it in."""

import re
from pathlib import Path

import pytest

from app.cli import run
from app.rejections import remedy_of
from app.tables import runs_table
from sim import Config, Request, simulate
from sim.report import report
from sim.trace.trace import Trace

HEAD = "arrived_at,num_prefill_tokens,num_decode_tokens\n"


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert run(["simulate", *arguments]) == 0
    return [line.strip() for line in capsys.readouterr().out.splitlines() if "rejected" in line]


def test_a_table_says_how_many_are_rejected_why_and_what_helps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text(HEAD + "0,10,5\n0,3000,9\n0,2500,9\n", encoding="utf-8")
    longest = "r1 needs 3008 tokens at worst, the maximum length is 2048; raise --max-len"
    assert told(capsys, str(trace)) == [f"paged: 2 of 3 requests rejected: {longest}"]
    assert told(capsys, str(trace), "--max-len", "4096", "--max-batch-tokens", "8192") == []
    assert told(capsys, str(trace), "--stream") == ["paged: 2 of 3 requests rejected"]


@pytest.mark.parametrize(
    ("dials", "request_of", "remedy"),
    [
        ({"max_len": 50}, {}, "raise --max-len"),
        ({"pool_tokens": 64}, {}, "raise --pool-tokens"),
        ({"pool_tokens": 64, "allocator": "max", "max_len": 128}, {}, "raise --pool-tokens"),
        ({"max_batch_tokens": 40}, {}, "raise --max-batch-tokens, or give --chunked-prefill"),
        ({"max_seqs": 2}, {"n": 3}, "raise --max-seqs"),
    ],
    ids=str,
)
def test_every_reason_has_a_remedy(dials: dict, request_of: dict, remedy: str) -> None:
    one = Request(id="a", arrival_s=0.0, prompt=60, output=20, max_tokens=20, **request_of)
    made = simulate(Trace("one", (one,)), Config(**{"max_len": 128, **dials}))
    (reason,) = made.outcomes.reject_reasons.values()
    assert remedy_of(reason) == remedy


def test_the_progress_of_a_stream_ends_where_the_run_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text(HEAD + "0,10,5\n" * 60, encoding="utf-8")
    assert run(["simulate", str(trace), "--first", "50", "--stream"]) == 0
    assert "50/50" in capsys.readouterr().err.splitlines()[-1]


def test_a_sweep_of_which_no_row_has_figures_says_why_and_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = ["--block-size", "8", "--block-size", "16"]
    assert run(["sweep", "nosuch", *values, "--processes", "1", "--out", str(tmp_path / "a")]) == 2
    said = capsys.readouterr().out
    assert "TTFT p95 s" in said, "the headings are whole"
    assert re.search(r"^refused: nosuch: .* \(2 rows\)$", said, re.MULTILINE)
    values[-1] = "1000000000"
    assert run(["sweep", "demo", *values, "--processes", "1", "--out", str(tmp_path / "b")]) == 0
    said = capsys.readouterr().out
    assert re.search(r"^ *8 +60 ", said, re.MULTILINE), "the row that has figures shows them"
    assert re.search(r"^ *1000000000 +refused", said, re.MULTILINE)
    assert re.search(r"^refused: .*1000000000", said, re.MULTILINE)


def test_the_title_of_a_run_that_was_stopped_says_who_had_come() -> None:
    document = report([simulate(Trace.read("demo"), Config())])
    assert str(runs_table(document).title).startswith("demo: 60 requests; ")
    document["runs"][0]["stopped_early"] = True
    document["runs"][0]["requests"]["arrived"] = 7
    assert str(runs_table(document).title).startswith("demo: stopped early, when 7 requests had come; ")


@pytest.mark.parametrize("allocator", ["max", "paged"])
def test_nothing_that_ran_is_no_agreement(allocator: str, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--pool-tokens", "16", "--max-len", "512", "--allocator", allocator, "--timing", "unit"]
    assert run(["compare", "demo", "--first", "3", *given, "--quiet"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"pagelab: {allocator}: no request could run: r")
    assert said.endswith("raise --pool-tokens\n")
