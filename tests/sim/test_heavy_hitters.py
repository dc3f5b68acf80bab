"""Dropping tokens by weight: fewer tokens are read, but memory comes back by the block."""

from random import Random

from sim import Config, simulate
from sim.events import Kind
from sim.horizon import HeavyHitters
from sim.request import Request
from tests.making import random_rows, requests
from tests.sim.slot_by_slot import heaviest
from tests.sim.witness import Witness


def run_of(trace, **dials):
    run = simulate(trace, Config(**{"timing": "unit"} | dials), check=True)
    Witness(run)
    return run


def test_the_kept_tokens_are_the_heaviest_of_those_that_are_not_recent():
    request = Request(id="r", arrival_s=0.0, prompt=50, output=50, max_tokens=50)
    config = Config(keep_recent=6, keep_heavy=5, seed=3)
    horizon = HeavyHitters(6, 5, 3)
    for stored in range(1, 90):
        count = horizon.num_dropped(stored, is_prefilling=False)
        dropped = set(horizon.drop_order(request, 0, count))
        older = list(range(max(0, stored + 1 - 6)))
        assert set(older) - dropped == set(heaviest(config, "r", older, 5))


def test_prefill_reads_all_and_drops_what_exceeds_the_budget_once_it_is_through():
    # blocks of 1: every dropped token is a free slot
    run = run_of(requests((30, 5)), pool_blocks=40, block_size=1, keep_recent=6, keep_heavy=5)
    live = [run.at(step).ledger["live"] for step in range(1, 6)]
    assert live == [6 + 5 - 1] * 5  # the eleventh is the query's own, stored by the next step
    assert run.series.column("internal").sum() == 0


def test_chunks_of_a_prefill_hold_everything_until_the_last():
    run = run_of(
        requests((30, 2)), pool_blocks=40, block_size=1, keep_recent=6, keep_heavy=5,
        chunked_prefill=True, max_batch_tokens=8,
    )  # fmt: skip
    assert [run.at(step).ledger["live"] for step in range(1, 5)] == [8, 16, 24, 10]


def test_one_heavy_token_keeps_a_whole_block():
    """The same budget of 64 tokens: what is dropped scatters, so most blocks stay, half empty of use."""
    held = {}
    for block_size in (1, 16):
        run = run_of(
            requests((256, 200)), pool_tokens=1024, block_size=block_size, keep_recent=32, keep_heavy=32
        )
        last = run.at(run.num_steps).ledger
        assert last["live"] == 63
        held[block_size] = last["live"] + last["reserved"] + last["internal"]
    assert held[1] == 63
    assert held[16] > 4 * 63


def test_a_window_of_the_same_budget_gives_back_what_heavy_hitters_cannot():
    trace = requests((256, 200))
    heavy = run_of(trace, pool_tokens=1024, keep_recent=32, keep_heavy=32)
    window = run_of(trace, pool_tokens=1024, window=32, sinks=32)
    ends = [run.at(run.num_steps).ledger for run in (heavy, window)]
    assert ends[0]["live"] == ends[1]["live"] == 63
    assert ends[0]["internal"] > 5 * ends[1]["internal"]


def test_the_log_frees_a_block_when_its_last_token_is_dropped():
    run = run_of(requests((20, 30)), pool_blocks=30, block_size=2, keep_recent=4, keep_heavy=4)
    punched = [event for event in run.events if event.kind is Kind.FREE and "places" in event.changes]
    assert punched
    assert "the last 4 tokens and the 4 heaviest of the others" in punched[0].why


def test_weights_are_seeded():
    trace = requests(*random_rows(Random(1), 10))
    logs = [
        [event.as_json() for event in run_of(
            trace, pool_blocks=60, block_size=2, keep_recent=4, keep_heavy=4, seed=seed
        ).events]
        for seed in (1, 1, 2)
    ]  # fmt: skip
    assert logs[0] == logs[1] != logs[2]
