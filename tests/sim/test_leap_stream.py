"""A trace served window by window is served as if it were served at once."""

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import pytest

from sim import Config, InputError, Request, Trace, simulate
from sim.leap import can_leap, stream
from sim.leap.memory import Ranges
from sim.leap.stream import simulate_stream
from sim.quantiles import RELATIVE_ERROR
from sim.report import latencies
from sim.series import COLUMNS
from tests.making import request, requests
from tests.sim.test_leap import costs, random_case  # noqa: F401  a fixture

LATENCIES = ("ttft", "tpot", "e2e", "normalized")


def pieces_of(trace: Trace, size: int) -> Iterator[list[Request]]:
    for start in range(0, len(trace), size):
        yield list(trace.requests[start : start + size])


def longer(random: Random, costs: str) -> tuple[Trace, Config]:  # noqa: F811
    """A random case of some more requests, and fewer sequences at once, so that it has several windows."""
    parts = [random_case(random, costs)[0] for _ in range(4)]
    config = random_case(random, costs)[1]
    rows = sorted(
        (request.arrival_s + 3.0 * place, request.prompt, request.output, request.max_tokens)
        for place, part in enumerate(parts)
        for request in part
    )
    config = Config(
        **{name: getattr(config, name) for name in config.__slots__} | {"max_seqs": random.randint(1, 4)}
    )
    return requests(*((prompt, output, arrival, most) for arrival, prompt, output, most in rows)), config


def assert_same(whole: dict[str, Any], streamed: dict[str, Any]) -> None:
    """All figures alike, but means of latencies by rounding, and percentiles."""
    for report in (whole, streamed):
        report.pop("per_request", None)
        report.pop("meta")
    latency, approximate = whole.pop("latency"), streamed.pop("latency")
    assert streamed == whole
    for name in LATENCIES:
        mean = latency[name]["mean"]
        assert approximate[name]["mean"] == (mean if mean is None else pytest.approx(mean, rel=1e-12))


@pytest.fixture
def seen(monkeypatch) -> Counter[str]:
    """Who was in service when a window ended."""
    counts: Counter[str] = Counter()
    carry = stream.carry_over

    def counted(before, *given):
        running = before.running
        counts["decoding"] += running.decoding.count
        counts["in the middle of a prompt"] += running.prefilling is not None
        counts["preempted before"] += sum(map(bool, before.journal.preemptions))
        counts["holding a range"] += isinstance(before.memory, Ranges) and running.count
        return carry(before, *given)

    monkeypatch.setattr(stream, "carry_over", counted)
    return counts


def test_random_small_servers_give_the_same_report_whatever_the_windows(costs, seen):  # noqa: F811
    for seed in range(80):
        random = Random(seed)
        trace, config = longer(random, costs)
        if not can_leap(trace, config):
            continue
        run = simulate_stream(trace.name, pieces_of(trace, random.choice((1, 2, 5))), config)
        try:
            assert_same(simulate(trace, config, record=False).report(), run.report())
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, {config}, {trace.requests}") from error
    assert min(seen.values()) > 20, seen
    assert len(seen) == 4


def test_percentiles_are_within_their_error():
    trace = Trace.read("sharegpt-like")
    run = simulate_stream("s", pieces_of(trace, 300)).report()
    whole = simulate(trace, record=False)
    for name, values in latencies(
        trace.requests, whole.outcomes.first_token_s, whole.outcomes.finish_s
    ).items():
        for percent in (50, 95, 99):
            exact = np.percentile(values, percent, method="lower")
            assert run["latency"][name][f"p{percent}"] == pytest.approx(exact, rel=1.01 * RELATIVE_ERROR)


def test_a_stopped_run_says_how_far_it_came():
    trace, config = Trace.read("sharegpt-like"), Config(pool_blocks=300)
    whole = simulate(trace, config, record=False, is_over=lambda: True).report()
    counts = whole["requests"]
    assert 0 < counts["finished"] < counts["arrived"] < 1000
    assert counts["unfinished"] == counts["arrived"] - counts["finished"] > 0
    assert whole["stopped_early"]
    assert_same(whole, simulate_stream(trace.name, [list(trace)], config, is_over=lambda: True).report())


def test_a_streamed_run_can_be_stopped_in_any_window():
    trace, asked = Trace.read("sharegpt-like"), iter([False] * 3 + [True] * 2)
    run = simulate_stream("s", pieces_of(trace, 300), Config(pool_blocks=300), is_over=lambda: next(asked))
    assert run.is_stopped
    assert 300 < run.trace.num_requests < 1000, "the rest is not read"
    assert 0 < run.num_finished < run.num_arrived <= run.trace.num_requests
    assert run.counts["unfinished"] == run.num_arrived - run.num_finished


@pytest.mark.parametrize("dials", [{}, {"preempt": "swap"}])
def test_a_stopped_run_is_that_of_stepping_as_far(dials, monkeypatch):
    """Up to its last step: series, tokens out and times are those that stepping gives by then."""
    monkeypatch.setattr("sim.leap.server.TURNS", 150)
    trace, config = Trace.read("sharegpt-like"), Config(pool_blocks=150, **dials)
    stopped = simulate(trace, config, record=False, is_over=lambda: True)
    rows = []

    def enough(row, _):
        rows.append(row)

    stepped = simulate(
        trace,
        config,
        record=False,
        step_by_step=True,
        on_step=enough,
        is_over=lambda: len(rows) == stopped.num_steps,
    )
    assert stepped.is_stopped
    assert stepped.num_preemptions
    for name in COLUMNS:
        assert stopped.series.column(name).tolist() == stepped.series.column(name).tolist(), name
    mine, theirs = stopped.report(), stepped.report()
    for name in (
        "recompute",
        "lost_tokens",
    ):  # leaps count it when memory is lost, not when it is done
        mine.pop(name), theirs.pop(name)
    assert mine == theirs


def test_requests_out_of_order_are_refused():
    with pytest.raises(InputError, match=r"request 'r1' arrives at 1.0 s, after one at 2.0 s: .* sort it"):
        simulate_stream("s", [list(requests((5, 5, 2.0)).requests), [request("r1", 5, 5, 1.0)]])


@pytest.mark.parametrize(
    ("dials", "why"),
    [({"prefix_cache": "hash"}, "prefix cache hash"), ({"window": 64}, "window 64")],
)
def test_what_cannot_leap_cannot_be_streamed(dials, why):
    with pytest.raises(InputError, match=why):
        simulate_stream("s", [], Config(**dials))


def test_an_empty_trace_and_one_that_can_never_run_end_at_once():
    assert simulate_stream("s", []).report()["requests"]["arrived"] == 0
    trace = requests((99, 1), (99, 1, 7.0))
    config = Config(pool_blocks=1)
    assert_same(
        simulate(trace, config, record=False).report(),
        simulate_stream("made", pieces_of(trace, 1), config).report(),
    )
