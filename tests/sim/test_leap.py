"""Leaping gives what stepping gives: the same report and the same series, number for number."""

from collections import Counter
from dataclasses import fields
from random import Random
from typing import Any

import pytest

import sim.serve
from sim import Config, Request, Run, Trace, simulate
from sim.alloc import PLACEMENTS, RESERVATIONS
from sim.leap import can_leap, leap, why_not
from sim.leap.cover import COVERED
from sim.leap.memory import BlockCounts
from sim.leap.server import LeapServer
from sim.series import COLUMNS
from tests.making import requests
from tests.sim.vllm import assert_same_schedule, config_of, scenarios, trace_of

NUM_SEEDS = 2500
ALL_COLUMNS = (*COLUMNS, "batch", "tokens", "duration_ps", "duration")


def random_case(random: Random, costs: str) -> tuple[Trace, Config]:
    """A trace and a pool so small that they hardly go together."""
    crowded = random.random() < 0.6
    longest = random.choice((4, 8, 8, 16))
    block_size = random.choice((1, 1, 2, 3, 4) if crowded else (1, 2, 4, 8, 16))
    pool_tokens = max(
        block_size, int(longest * random.choice((1.6, 1.9, 2.2, 3.0) if crowded else (0.9, 2.0, 5.0)))
    )
    span_s = random.choice((0, 1, 3) if crowded else (0, 3, 12, 100))
    rows: list[tuple[float, ...]] = []
    for arrival in sorted(random.randint(0, span_s) for _ in range(random.randint(1, 9))):
        prompt = random.randint(1, longest // 2 if crowded else longest)
        output = random.randint(1, longest)
        rows.append((prompt, output, arrival, output + random.choice((0, 0, 0, 2))))
    dials: dict[str, Any] = {
        "allocator": random.choice(("paged", "paged", "paged", "paged", *RESERVATIONS)),
        "block_size": block_size,
        "pool_tokens": pool_tokens,
        "max_len": 2 * longest + 2 if crowded else random.choice((longest + 3, 2 * longest)),
        "max_seqs": random.choice((3, 100, 100) if crowded else (1, 2, 4, 100)),
        "batching": random.choice(("continuous", "continuous", "continuous", "static", "sequential")),
        "step_rule": random.choice(("mixed", "mixed", "prefill-first")),
        "watermark": random.choice((0.0, 0.0, 0.0, 0.1, 0.4)),
        "timing": random.choice(("unit", "unit", "roofline", costs)),
        "max_batch_tokens": random.choice((None, None, 2 * longest + 5, longest)),
    }
    if dials["allocator"] != "paged":
        dials["placement"] = random.choice(list(PLACEMENTS))
    elif random.random() < 0.35:
        dials["preempt"] = "swap"
        dials["swap_blocks"] = random.choice((None, None, 0, 1, 3))
    if dials["step_rule"] == "mixed" and random.random() < (0.1 if "preempt" in dials else 0.5):
        dials["chunked_prefill"] = True
        dials["max_batch_tokens"] = random.choice((1, 2, 4, 7, longest, 2 * longest))
    if dials["timing"] == "roofline":
        dials["tensor_parallel"] = random.choice((1, 1, 2, 4))
    return requests(*rows), Config(**dials)


@pytest.fixture(scope="session")
def costs(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A timing file whose steps take a few seconds, and never twice the same."""
    path = tmp_path_factory.mktemp("timing") / "costs.json"
    path.write_text(
        '{"seconds": {"step": 0.7, "token": 0.013, "context_token": 0.0031, "attention_pair": 0.0007, '
        '"swapped_block": 0.11, "sequence": 0.17}, "curve": [[0, 0.1], [3, 0.9], [40, 1.3]]}'
    )
    return str(path)


def both_ways(trace: Trace, config: Config) -> tuple[Run, Run]:
    """Stepped, leapt."""
    stepped = simulate(trace, config, record=False, step_by_step=True)
    leapt = simulate(trace, config, record=False)
    return stepped, leapt


def assert_equal(stepped: Run, leapt: Run) -> None:
    for name in ALL_COLUMNS:
        assert leapt.series.column(name).tolist() == stepped.series.column(name).tolist(), name
    assert leapt.report() == stepped.report()


@pytest.fixture(scope="module")
def seen() -> Counter[str]:
    """What happened in how many of the random runs."""
    return Counter()


@pytest.mark.parametrize("part", range(10))
def test_random_small_servers_give_the_same_report_and_series(part, costs, seen):
    for seed in range(part, NUM_SEEDS, 10):
        trace, config = random_case(Random(seed), costs)
        if not can_leap(trace, config):
            seen["not covered"] += 1
            continue
        stepped, leapt = both_ways(trace, config)
        try:
            assert_equal(stepped, leapt)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, {config}, {trace.requests}") from error
        column = leapt.series.column
        seen.update(
            what
            for what, happened in {
                "leapt": True,
                "preempted": leapt.num_preemptions,
                "swapped": leapt.traffic.swapped_blocks,
                "swap space full": leapt.traffic.swapped_blocks and leapt.work.lost,
                "rejected": leapt.outcomes.reject_reasons,
                "stranded": column("external").any(),
                "waited": column("waiting").any(),
                "idled": leapt.idle_s,
                "stalled": (column("batch") < column("running")).any(),
                "chunked": len(column("tokens")) and column("tokens").max() == config.max_batch_tokens,
                "ended together": len(set(leapt.outcomes.finish_s)) < len(leapt.outcomes),
                config.batching: column("waiting").any(),
                config.allocator: column("waiting").any(),
            }.items()
            if happened
        )


def test_everything_that_can_happen_did(seen):
    """Runs after the ten parts above, in the same process."""
    if seen["leapt"] < NUM_SEEDS // 2:
        pytest.skip("the random runs were not all made in this process")
    assert seen["leapt"] > 0.95 * NUM_SEEDS
    assert min(seen.values()) >= 10, seen
    assert set(seen) == {
        "leapt", "not covered", "preempted", "swapped", "swap space full", "rejected", "stranded", "waited",
        "idled", "stalled", "chunked", "ended together", "continuous", "static", "sequential", "paged", "max",
        "pow2", "oracle",
    }  # fmt: skip


@pytest.mark.parametrize("seed", range(12))
def test_servers_of_usual_size_give_the_same_report_and_series(seed):
    """Longer leaps than above: worked out in arrays, over many blocks, cut by arrivals between."""
    random = Random(seed)
    rows: list[tuple[float, ...]] = []
    arrival = 0.0
    for _ in range(80):
        arrival += random.expovariate(random.choice((0.5, 8.0)))
        rows.append((random.randint(1, 400), random.choice((1, 30, 200, 700)), arrival))
    config = Config(
        pool_blocks=random.choice((80, 160, 2000)),
        allocator=random.choice(("paged", "paged", "oracle")),
        step_rule=random.choice(("mixed", "prefill-first")),
        max_seqs=random.choice((8, 256)),
        timing=random.choice(("unit", "roofline")),
    )
    assert_equal(*both_ways(requests(*rows), config))


@pytest.mark.parametrize(
    ("name", "first", "dials"),
    [
        ("AzureLLMInferenceTrace_conv.csv.gz", 250, {"max_len": 16_384}),
        ("AzureLLMInferenceTrace_code.csv.gz", 200, {"chunked_prefill": True, "max_batch_tokens": 512}),
        ("mooncake_conversation_trace.jsonl.gz", 40, {"pool_blocks": 20_000, "max_len": 200_000}),
    ],
)
def test_public_traces_give_the_same_report_and_series(shared_data, name, first, dials):
    trace = Trace.read(shared_data / name).first(first)
    stepped, leapt = both_ways(trace, Config(**dials))
    assert_equal(stepped, leapt)
    assert leapt.outcomes.is_finished.any()


def test_vllms_own_schedules_come_out_of_leaps_too():
    num_preemptions = 0
    for case in scenarios(prefix=False):
        trace, config = trace_of(case["scenario"]), config_of(case["scenario"])
        assert can_leap(trace, config)
        run = simulate(trace, config, record=False)
        assert_same_schedule(run, case)
        num_preemptions += run.num_preemptions
    assert num_preemptions == 598


def test_times_beyond_64_bits_of_picoseconds_stay_exact():
    rows = [(4, 9, 0.0), (5, 7, 3.5), (6, 3, 1e7), (9, 99, 1e7), (2, 60, 3e11), (7, 5, 3e11 + 2)]
    stepped, leapt = both_ways(requests(*rows), Config(timing="unit"))
    assert_equal(stepped, leapt)
    assert leapt.time_s > 2**63 / 1e12


def test_one_long_answer_is_longer_than_a_leap():
    trace = requests((10, 150_000))
    config = Config(max_len=200_000, pool_tokens=200_000, timing="unit")
    run = simulate(trace, config, record=False)
    assert run.num_steps == run.time_s == 150_000
    assert run.peak_slots == -(-(10 + 149_999) // 16) * 16
    assert run.ledger["live"] == 10 + 149_999 / 2


def test_an_empty_server_leaps_over_requests_that_can_never_run():
    stepped, leapt = both_ways(requests((99, 1), (99, 1, 7.0)), Config(pool_blocks=1))
    assert_equal(stepped, leapt)
    assert (leapt.num_steps, leapt.time_s, leapt.idle_s) == (0, 7.0, 7.0)


def count_turns(monkeypatch: pytest.MonkeyPatch, trace: Trace, config: Config) -> int:
    """In how many turns of its loop the leaping server serves the trace."""
    num_turns = 0
    run_all = LeapServer._run_all

    def counted(self):
        nonlocal num_turns
        num_turns += 1
        run_all(self)

    monkeypatch.setattr(LeapServer, "_run_all", counted)
    simulate(trace, config, record=False)
    monkeypatch.setattr(LeapServer, "_run_all", run_all)
    return num_turns


def test_ten_times_longer_answers_take_no_more_turns(monkeypatch):
    config = Config(max_len=100_000, pool_tokens=1_000_000, max_seqs=32)
    short = requests(*((50, 200 + i, 0.01 * i) for i in range(200)))
    long = requests(*((50, 10 * (200 + i), 0.01 * i) for i in range(200)))
    for trace in (short, long):  # one turn for each admission, one for each end, and a few by guesses too low
        assert count_turns(monkeypatch, trace, config) <= 2 * 200 + 10


def test_a_larger_batch_takes_no_more_turns(monkeypatch):
    trace = requests(*((50, 200 + i) for i in range(300)))
    turns = [
        count_turns(monkeypatch, trace, Config(pool_tokens=200_000, max_seqs=max_seqs))
        for max_seqs in (4, 32, 256)
    ]
    assert turns[0] >= turns[1] >= turns[2] >= 300


def test_runs_leap_unless_somebody_looks_at_their_steps(monkeypatch):
    leaps: list[Config] = []

    def spy(trace, config, timing, on_progress, is_over):
        leaps.append(config)
        return leap(trace, config, timing, on_progress, is_over)

    monkeypatch.setattr(sim.serve, "leap", spy)
    trace, config = requests((5, 5)), Config()
    for looking in ({}, {"check": True}, {"on_step": lambda row, ended: None}, {"step_by_step": True}):
        simulate(trace, config, **{"record": False, **looking})
    simulate(trace, config)
    assert len(leaps) == 1


def test_progress_ends_with_all_requests_either_way():
    trace, config = requests((5, 5), (9999, 1), (5, 9)), Config()
    for step_by_step in (False, True):
        told: list[int] = []
        simulate(trace, config, record=False, step_by_step=step_by_step, on_progress=told.append)
        assert told[-1] == 3


@pytest.mark.parametrize(
    ("dials", "why"),
    [
        ({"prefix_cache": "hash"}, "prefix cache hash: leaps know only off"),
        ({"victim": "oldest"}, "victim oldest: leaps know only youngest"),
        ({"chunked_prefill": True, "preempt": "swap"}, "a chunk may come before younger decodes"),
        ({"step_rule": "prefill-first", "max_len": 2, "max_batch_tokens": 2}, "would have to skip a step"),
    ],
)
def test_what_leaps_do_not_know_is_stepped_and_says_why(dials, why):
    trace = requests((1, 2), (1, 2), (1, 2))
    assert why in why_not(trace, Config(**dials))
    assert_equal(*both_ways(trace, Config(**dials)))


def test_several_sequences_of_a_request_are_stepped():
    two = Request(id="two", arrival_s=0.0, prompt=5, output=5, max_tokens=5, n=2)
    assert why_not(Trace("made", (two,)), Config()) == "request two has several sequences"


def test_every_dial_is_known_or_stands_at_its_default():
    """A new dial must be thought about here; until then its default leaps and anything else is stepped."""
    at_default_only = {
        "large_block_size", "growth", "size_classes", "page_size", "compaction", "table",
        "window", "sinks", "keep_recent", "keep_heavy", "speculate", "accept", "eviction",
    }  # fmt: skip
    assert {dial.name for dial in fields(Config)} == {*COVERED, *at_default_only}
    assert not COVERED.keys() & at_default_only


def test_a_wrong_leap_is_noticed(monkeypatch, costs):
    """The comparison has teeth: one block too many in one growth formula, and it fails."""
    growth = BlockCounts.growth
    monkeypatch.setattr(BlockCounts, "growth", lambda self, rounds: growth(self, rounds + 1))
    cases = [random_case(Random(seed), costs) for seed in range(100)]
    with pytest.raises(AssertionError):
        any(assert_equal(*both_ways(trace, config)) for trace, config in cases)
