"""Arithmetic of the paper (Kwon et al., SOSP 2023) that a run must reproduce exactly."""

import pytest

from sim import Config, simulate
from tests.making import requests


def test_orca_max_runs_exactly_seven_requests_in_the_papers_pool():
    run = simulate(requests(*[(161, 50)] * 30), Config(timing="unit", allocator="max"))
    assert run.report()["batch"]["max"] == 7
    assert run.series.column("running")[0] == 7
    # figure 2, Orca (Max): 8.9 % external and others = (15,728 - 7 x 2048) / 15,728
    row = run.at(1).ledger
    others = row["rounding"] + row["external"] + row["free"]
    assert 100 * others / row["pool"] == pytest.approx(8.85, abs=0.005)


@pytest.mark.parametrize("placement", ["buddy", "first-fit", "best-fit", "next-fit", "worst-fit"])
def test_seven_is_not_a_matter_of_placement(placement):
    run = simulate(requests(*[(161, 50)] * 30), Config(timing="unit", allocator="max", placement=placement))
    assert run.report()["batch"]["max"] == 7


def test_how_many_of_the_papers_mean_request_fit_at_once():
    """161 + 338 tokens: Max takes 2048 slots, Pow2 673 -> 1024, Oracle 498 -> 512, paged 11 blocks."""
    rows = requests(*[(161, 338)] * 35)
    most = {
        name: simulate(rows, Config(timing="unit", allocator=name), record=False).report()["batch"]["max"]
        for name in ("max", "pow2", "oracle", "paged")
    }
    assert most == {"max": 7, "pow2": 15, "oracle": 30, "paged": 35}
