"""`pagelab capacity`: one table, one document, one picture."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from app.cli import run as pagelab
from app.files import only_writer
from sim.capacity import Capacity, find_capacity
from tests.app.test_dirty import limited

FIRST = ["capacity", "sharegpt-like", "--first", "100", "--target", "ttft-p95=0.5"]


def test_the_document_has_a_capacity_for_each_policy_and_memory_and_a_frontier(capsys, tmp_path):
    options = ["--allocator", "max", "--allocator", "paged", "--memory", "32GiB", "--memory", "40GiB"]
    costs = ["--price-per-hour", "2", "--power", "400", "--out", str(tmp_path)]
    assert pagelab([*FIRST, *options, *costs, "--json", "--quiet"]) == 0
    document = json.loads(capsys.readouterr().out)
    rates = {(one["allocator"], one["memory"]): one["rate"] for one in document["capacities"]}
    assert len(rates) == 4
    assert rates["max", "32GiB"] < rates["max", "40GiB"] < rates["paged", "40GiB"]
    for one in document["capacities"]:
        assert one["ttft-p95"] <= 0.5
        assert one["cost_per_million_tokens"] == pytest.approx(2 / 3600 * 1e6 / one["tokens_per_s"])
        assert one["kwh_per_million_tokens"] == pytest.approx(400 * 1e6 / one["tokens_per_s"] / 3.6e6)
    efficient = [point for point in document["frontier"] if point["is_efficient"]]
    assert 0 < len(efficient) < len(document["frontier"])
    assert json.loads((tmp_path / "capacity.json").read_bytes()) == document
    assert (tmp_path / "capacity.png").read_bytes().startswith(b"\x89PNG")


def test_a_ctrl_c_leaves_what_was_found(capsys, tmp_path, monkeypatch):
    def pressed(trace, config, targets, on_point, is_over) -> Capacity:
        """The first search is whole; in the second Ctrl-C is pressed when five rates have been tried."""
        tried: list[float] = []

        def tell(point) -> None:
            tried.append(point.rate)
            if config.allocator == "paged" and len(tried) == 5:
                signal.raise_signal(signal.SIGINT)

        return find_capacity(trace, config, targets, tell, is_over)

    monkeypatch.setattr("app.commands.capacity.find_capacity", pressed)
    three = ["--allocator", "max", "--allocator", "paged", "--allocator", "oracle"]
    assert pagelab([*FIRST, *three, "--out", str(tmp_path), "--json"]) == 130
    out, err = capsys.readouterr()
    assert err.splitlines()[-1] == "pagelab: interrupted: the report says what was found up to there"
    document = json.loads(out)
    whole, cut_short = document["capacities"]
    assert (whole["allocator"], whole["is_stopped"]) == ("max", False)
    assert (cut_short["allocator"], cut_short["is_stopped"]) == ("paged", True)
    assert len(cut_short["points"]) >= 4
    assert json.loads((tmp_path / "capacity.json").read_bytes()) == document
    assert (tmp_path / "capacity.png").stat().st_size > 1000
    assert pagelab([*FIRST, *three, "--quiet", "--out", str(tmp_path)]) == 130
    assert pagelab([*FIRST, "--allocator", "paged"]) == 130
    assert "interrupted" in capsys.readouterr().out


def test_a_place_that_cannot_be_written_or_is_taken_is_found_before_the_search(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("app.commands.capacity.find_capacity", lambda *_: pytest.fail("it ran"))
    (tmp_path / "file").write_text("in the way")
    assert pagelab([*FIRST, "--out", str(tmp_path / "file" / "x")]) == 2
    assert "is a file, no folder" in capsys.readouterr().err
    with only_writer(tmp_path):
        assert pagelab([*FIRST, "--out", str(tmp_path)]) == 2
    assert "another run is writing there" in capsys.readouterr().err


def test_a_disk_that_fills_leaves_both_earlier_files_whole(tmp_path: Path):
    """The document fits and its picture does not; once the new document stood beside the old picture."""
    for name in ("capacity.json", "capacity.png"):
        (tmp_path / name).write_text("earlier")
    done = subprocess.run(
        [sys.executable, "-m", "app", *FIRST, "--quiet", "--out", str(tmp_path)],
        capture_output=True, text=True, check=False, preexec_fn=limited(20_000),
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith("pagelab: cannot write ") and done.stderr.count("\n") == 1
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == dict.fromkeys(
        ("capacity.json", "capacity.png"), "earlier"
    )


def test_the_formulas_stand_below_the_table(capsys):
    assert pagelab([*FIRST, "--price-per-hour", "2", "--power", "400"]) == 0
    said = capsys.readouterr().out
    assert "cost per million tokens = price per hour x devices / 3600" in said
    assert "kwh per million tokens = power in W x devices" in said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["capacity", "demo"], "Missing option '--target'"),
        ([*FIRST[:4], "--target", "fast"], "target 'fast'"),
        ([*FIRST, "--memory", "40GiB", "--pool-tokens", "100"], "both size the pool"),
        (["capacity", "thrashing", "--target", "ttft-p95=1"], "arrive at once"),
        ([*FIRST, "--power", "-3"], "power -3.0"),
        ([*FIRST, "--seed", "9" * 20, "--json"], "seed: a whole number of 67 bits"),
    ],
)
def test_what_cannot_work_is_refused_in_one_line(options, said, capsys):
    assert pagelab(options) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
