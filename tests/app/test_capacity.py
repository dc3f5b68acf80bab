"""`pagelab capacity`: one table, one document, one picture."""

import json

import pytest

from app.cli import run as pagelab

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
    ],
)
def test_what_cannot_work_is_refused_in_one_line(options, said, capsys):
    assert pagelab(options) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
