"""Sliding windows with sinks: blocks that no later query reads are given back, and leave holes."""

from random import Random

import pytest

from sim import Config, Request, Trace, simulate
from sim.batch import Batch, Chunk
from sim.events import Kind
from sim.horizon import HeavyHitters, KeepAll, SlidingWindow, num_pairs, num_read
from sim.request import SequenceGroup
from tests.making import random_rows, requests
from tests.sim.slot_by_slot import reads
from tests.sim.witness import Witness


def run_of(trace: Trace, **dials):
    run = simulate(trace, Config(**{"block_size": 4, "timing": "unit"} | dials), check=True)
    Witness(run)
    return run


def test_a_block_is_given_back_by_the_step_after_which_nobody_reads_it():
    # window 4: once 7 tokens are stored, the query at 7 reads 4 to 7; tokens 0 to 3, all of block 0, are past
    run = run_of(requests((5, 8)), pool_blocks=4, window=4)
    assert [(run.at(step).stored["r0"], run.at(step).block_tables["r0"]) for step in (1, 2, 3, 4, 7)] == [
        (5, [0, 1]), (6, [0, 1]), (7, [-1, 1]), (8, [-1, 1]), (11, [-1, -1, 0]),
    ]  # fmt: skip


def test_sinks_keep_the_first_blocks():
    run = run_of(requests((5, 12)), pool_blocks=5, window=4, sinks=1)
    table = run.at(run.num_steps).block_tables["r0"]
    assert [block == -1 for block in table] == [False, True, True, False]
    # of block 0 only the sink is read: 3 slots hold KV that no later query can read
    assert run.at(run.num_steps).ledger["live"] == 1 + 3
    assert run.at(run.num_steps).ledger["internal"] == 3 + 1


def test_slots_in_holes_are_marked_and_the_rest_keep_their_place():
    run = run_of(requests((5, 8)), pool_blocks=4, window=4)
    assert run.at(4).slots("r0", 4).tolist() == [-1, -1, -1, -1, 4, 5, 6, 7]
    assert run.at(4).ref_counts() == {1: 1}


def test_the_log_says_which_places_became_holes_and_why():
    run = run_of(requests((5, 8)), pool_blocks=4, window=4)
    freed = next(event for event in run.events if event.kind is Kind.FREE)
    assert freed.changes == {"blocks": [0], "places": [0]}
    assert freed.why == "no later query reads logical block 0: attention sees the last 4 tokens"


def test_a_window_runs_in_chunks_what_never_fits_whole():
    # 7 + 4 tokens, at their worst place in blocks of 4, are 4 blocks; the request stores 99 tokens
    chunked = {"chunked_prefill": True, "max_batch_tokens": 4, "window": 8}
    run = run_of(requests((60, 40)), pool_blocks=4, **chunked)
    assert run.requests[0]["status"] == "finished"
    assert run.report()["peak_blocks"] <= 4
    refused = run_of(requests((60, 40)), pool_blocks=3, **chunked)
    assert refused.requests[0]["reason"] == "needs 4 blocks at worst, the pool can give 3"


def test_without_chunks_the_whole_input_must_fit_at_once():
    run = run_of(requests((60, 40)), pool_blocks=20, window=8)
    assert run.requests[0]["reason"] == "needs 25 blocks at worst, the pool can give 20"


@pytest.mark.parametrize("block_size", [1, 2, 3, 4, 7, 16])
@pytest.mark.parametrize("window", [1, 2, 5, 8, 16, 17])
def test_the_worst_case_of_a_window_is_reached_and_never_passed(window, block_size):
    for chunk in (1, 2, 5, 8):
        for sinks in (0, 1, 4):
            horizon = SlidingWindow(window, sinks)
            most = max(
                len(
                    {at // block_size for at in range(min(sinks, stored))}
                    | {at // block_size for at in range(max(0, stored - window + 1), stored + chunk)}
                )
                for stored in range(100, 100 + block_size)
            )
            assert most == horizon.most_blocks(block_size, chunk)


def test_a_window_as_long_as_everything_changes_nothing():
    trace = requests(*random_rows(Random(3), 25))
    plain, wide = (
        simulate(trace, Config(pool_blocks=20, block_size=4, **dials)) for dials in ({}, {"window": 2048})
    )
    same = {key: value for key, value in plain.report().items() if key != "config"}
    assert same == {key: value for key, value in wide.report().items() if key != "config"}
    assert [event.as_json() for event in plain.events] == [event.as_json() for event in wide.events]


@pytest.mark.parametrize("seed", range(20))
def test_what_attention_reads_is_counted_as_the_definition_says(seed):
    random = Random(seed)
    recent, kept = random.randint(1, 12), random.randint(0, 6)
    start, num_tokens, is_prefill = random.randint(0, 40), random.randint(1, 12), random.random() < 0.5
    request = Request(id="r", arrival_s=0.0, prompt=1, output=99, max_tokens=99)
    for horizon, config in (
        (KeepAll(), Config()),
        (SlidingWindow(recent, kept), Config(window=recent, sinks=kept)),
        (HeavyHitters(recent, kept, 0), Config(keep_recent=recent, keep_heavy=kept)),
    ):
        per_query = [
            reads(config, request.id, query, is_prefill=is_prefill)
            for query in range(start, start + num_tokens)
        ]
        assert num_read(horizon, start, num_tokens, is_prefill=is_prefill) == len(set().union(*per_query))
        assert num_pairs(horizon, start, num_tokens, is_prefill=is_prefill) == sum(map(len, per_query))


def test_a_decode_reads_no_more_than_window_and_sinks():
    group = SequenceGroup(Request(id="r", arrival_s=0.0, prompt=1, output=9, max_tokens=9), 0)
    chunk = Chunk(group, group.sequences[0], 1000, 1, False, True)
    assert Batch(1, 0.0, [chunk]).num_context_tokens == 1001
    batch = Batch(1, 0.0, [chunk], horizon=SlidingWindow(64, 4))
    assert batch.num_context_tokens == batch.num_attention_pairs == 64 + 4


def test_the_step_time_stops_growing_with_the_context():
    trace = requests((10, 1500))
    times = {
        window: simulate(trace, Config(window=window, pool_blocks=200), record=False).series.column(
            "duration"
        )
        for window in (None, 128)
    }
    assert times[128][-1] == times[128][200]
    assert times[None][-1] > times[None][200]


def prefix_request(id: str, length: int, arrival: float, output: int = 1) -> Request:
    tokens = tuple(range(length))
    return Request(id=id, arrival_s=arrival, prompt=length, output=output, max_tokens=output, tokens=tokens)


def test_a_hit_needs_only_what_the_next_query_reads():
    # 24 tokens of 33 are past the window of 8: those 6 blocks come as holes, though all are cached
    trace = Trace("made", (prefix_request("a", 33, 0.0), prefix_request("b", 33, 5.0)))
    run = run_of(trace, pool_blocks=20, window=8, prefix_cache="hash")
    assert run.groups[1].hit_tokens == 32
    (hit,) = [event for event in run.events if event.kind is Kind.HIT]
    assert [block == -1 for block in hit.changes["blocks"]] == [True] * 6 + [False] * 2


def test_a_hit_goes_on_past_blocks_that_are_no_longer_cached():
    # "c" evicts the 3 blocks of "a" that were freed first: those that its window had passed
    other = Request(id="c", arrival_s=3.0, prompt=12, output=1, max_tokens=1, tokens=tuple(range(100, 112)))
    rows = (prefix_request("a", 33, 0.0), other, prefix_request("b", 33, 6.0))
    found = {}
    for window in (None, 8):
        run = run_of(Trace("made", rows), pool_blocks=9, window=window, prefix_cache="hash")
        assert any(event.kind is Kind.EVICT for event in run.events)
        found[window] = run.groups[2].hit_tokens
    assert found == {None: 24, 8: 32}


def test_sinks_that_are_gone_end_the_hit():
    from sim.cache.index import longest_hit

    window = SlidingWindow(5, 4)
    assert longest_hit([0, 1, 2, 3], window, 4) == [0, -1, -1, 3]
    assert longest_hit([0, -1, -1, 3], window, 4) == [0, -1, -1, 3]
    assert longest_hit([-1, 1, 2, 3], window, 4) == []
    assert longest_hit([0, 1, 2, -1], window, 4) == [0, -1, 2]
    assert longest_hit([0, 1, -1, -1], window, 4) == [0, 1]


def test_samples_share_their_window_and_their_holes():
    trace = Trace("made", (Request(id="r", arrival_s=0.0, prompt=12, output=6, max_tokens=6, n=2),))
    run = run_of(trace, pool_blocks=8, window=5)
    assert run.at(1).block_tables == {"r/0": [-1, -1, 2], "r/1": [-1, -1, 2]}


def test_a_swapped_window_comes_back_with_its_holes():
    trace = requests((8, 40), (12, 30))
    run = run_of(trace, pool_blocks=5, window=6, preempt="swap")
    swapped = [event for event in run.events if event.kind is Kind.SWAP_OUT]
    assert run.report()["requests"]["finished"] + run.report()["requests"]["rejected"] == 2
    assert not swapped or -1 not in swapped[0].changes["blocks"]
