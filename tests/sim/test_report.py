"""The report: the contract's keys, definitions that a reader can check by hand, and JSON that is JSON."""

import json
from random import Random

import orjson
import pytest

from sim import Config, __version__, simulate
from sim.report import report, summarize
from tests.making import random_dials, random_trace, requests

RUN_KEYS = {
    "source", "allocator", "config", "requests", "steps", "time_s", "idle_s", "preemptions", "copies",
    "swapped_out_blocks", "swapped_in_blocks", "moved_tokens", "prefix", "batch", "ledger", "waste_percent",
    "peak_blocks", "free_at_end", "table_bytes", "latency", "throughput", "per_request",
}  # fmt: skip
NESTED_KEYS = {
    "requests": {"arrived", "finished", "rejected", "unfinished"},
    "prefix": {"prompt_tokens", "hit_tokens"},
    "batch": {"mean", "max"},
    "ledger": {"pool", "live", "reserved", "internal", "rounding", "cached", "external", "free"},
    "latency": {"ttft", "tpot", "e2e", "normalized"},
    "throughput": {"requests_per_s", "tokens_per_s"},
}
REQUEST_KEYS = {
    "id", "status", "reason", "arrival", "first_token", "finish", "prompt", "output", "emitted",
    "preemptions", "prefills", "hit_tokens",
}  # fmt: skip


def strict_json(document) -> dict:
    """`document` as a reader gets it back; fails on NaN and infinity."""
    text = json.dumps(document, allow_nan=False)
    assert orjson.loads(orjson.dumps(document)) == json.loads(text)
    return json.loads(text)


@pytest.fixture
def two_runs():
    trace = requests((8, 4), (8, 4), (8, 4), (99, 1), name="three")
    return [
        simulate(trace, Config(timing="unit", pool_blocks=6, block_size=4)),
        simulate(trace, Config(timing="unit", pool_blocks=6, block_size=4, allocator="oracle")),
    ]


def test_the_document_has_the_contracts_keys(two_runs):
    document = strict_json(report(two_runs))
    assert document["pagelab"] == __version__
    assert document["trace"] == {
        "name": "three", "requests": 4, "span_s": 0.0, "prompt_tokens": 123, "output_tokens": 13,
        "skipped": {},
    }  # fmt: skip
    assert [run["allocator"] for run in document["runs"]] == ["paged", "oracle"]
    for run in document["runs"]:
        assert run.keys() >= RUN_KEYS
        assert run["source"] == "simulated"
        assert run["clock"] == "modelled"
        for name, keys in NESTED_KEYS.items():
            assert run[name].keys() == keys
        for summary in run["latency"].values():
            assert summary.keys() == {"mean", "p50", "p95", "p99"}
        for entry in run["per_request"]:
            assert entry.keys() == REQUEST_KEYS


def test_the_config_in_the_report_makes_the_same_run_again(two_runs):
    for run in two_runs:
        described = run.report()["config"]
        config = Config(**{name: described[name] for name in Config.__dataclass_fields__})
        assert config == run.config
        assert described["num_slots"] == run.report()["ledger"]["pool"]


def test_the_counts_of_a_small_run(two_runs):
    document = two_runs[0].report()
    assert document["requests"] == {"arrived": 4, "finished": 3, "rejected": 1, "unfinished": 0}
    assert (document["steps"], document["time_s"], document["idle_s"]) == (7, 7.0, 0.0)
    assert document["preemptions"] == 1
    assert document["batch"]["max"] == 3
    assert document["peak_blocks"] == 6
    assert document["table_bytes"] == 4 * 3 * 2048 / 4  # rows of three, each for the longest sequence
    assert document["free_at_end"] == 24
    assert document["throughput"] == {"requests_per_s": 3 / 7, "tokens_per_s": 12 / 7}
    assert document["prefix"] == {"prompt_tokens": 24, "hit_tokens": 0}


def test_one_entry_for_each_request_in_order_of_arrival(two_runs):
    entries = two_runs[0].requests
    assert [entry["id"] for entry in entries] == ["r0", "r1", "r2", "r3"]
    assert entries[2] == {
        "id": "r2", "status": "finished", "reason": None, "arrival": 0.0, "first_token": 1.0, "finish": 7.0,
        "prompt": 8, "output": 4, "emitted": 4, "preemptions": 1, "prefills": [8, 9], "hit_tokens": 0,
    }  # fmt: skip
    rejected = entries[3]
    assert rejected["status"] == "rejected"
    assert rejected["reason"]
    assert rejected["first_token"] is rejected["finish"] is None
    assert rejected["prefills"] == []


def test_requests_are_described_without_the_rest_of_the_report(two_runs, monkeypatch):
    """Story: each look at `run.requests` built the whole report, percentiles and all."""
    expected = two_runs[0].report()["per_request"]
    monkeypatch.setattr("sim.run.report_run", None)
    assert two_runs[0].requests == expected


def test_latencies_by_hand(tmp_path):
    """r0: prefill 0 to 5, decode 5 to 7. r1: arrives at 100, prefill to 109, no decode."""
    costs = tmp_path / "costs.json"
    costs.write_text('{"seconds": {"step": 1, "token": 1}}')
    trace = requests((4, 2), (8, 1, 100.0))
    run = simulate(trace, Config(pool_blocks=4, block_size=4, timing=str(costs)))
    latency = run.report()["latency"]
    assert latency["ttft"]["mean"] == (5 + 9) / 2
    assert latency["e2e"]["mean"] == (7 + 9) / 2
    assert latency["normalized"]["mean"] == (7 / 2 + 9 / 1) / 2  # paper section 6.1
    assert latency["tpot"]["mean"] == 2.0
    assert run.report()["throughput"] == {"requests_per_s": 2 / 109, "tokens_per_s": 3 / 109}
    assert run.report()["waste_percent"] == pytest.approx(100 * (1 - 6.375 / (16 - 9.25)))


def test_a_late_arrival_waits_for_the_running_step_and_that_counts_as_latency():
    run = simulate(requests((4, 3), (4, 1, 0.25)), Config(timing="unit", pool_blocks=4))
    assert run.requests[1]["first_token"] == 2.0
    assert run.report()["latency"]["ttft"]["mean"] == (1.0 + 1.75) / 2


def test_percentiles_interpolate_linearly():
    assert summarize([float(value) for value in range(101)]) == {
        "mean": 50.0,
        "p50": 50.0,
        "p95": 95.0,
        "p99": 99.0,
    }
    assert summarize([1.0, 2.0]) == {
        "mean": 1.5,
        "p50": 1.5,
        "p95": pytest.approx(1.95),
        "p99": pytest.approx(1.99),
    }
    assert summarize([3.0]) == {"mean": 3.0, "p50": 3.0, "p95": 3.0, "p99": 3.0}


def test_nothing_to_summarize_is_null_not_nan():
    assert set(summarize([]).values()) == {None}


@pytest.mark.parametrize("allocator", ["paged", "max", "pow2", "oracle"])
@pytest.mark.parametrize(
    "rows", [[], [(999, 1)], [(999, 1), (999, 1, 5.0)]], ids=["empty", "rejected", "all-rejected"]
)
def test_a_run_without_a_step_has_a_report_too(allocator, rows):
    run = simulate(requests(*rows), Config(allocator=allocator, pool_tokens=64, max_len=64))
    [document] = strict_json(report([run]))["runs"]
    assert document["requests"] == {
        "arrived": len(rows),
        "finished": 0,
        "rejected": len(rows),
        "unfinished": 0,
    }
    assert document["steps"] == 0
    assert document["waste_percent"] == 0.0
    assert document["latency"]["ttft"]["mean"] is None
    assert document["free_at_end"] == 64


@pytest.mark.parametrize("seed", range(20))
def test_random_runs_end_with_an_empty_pool_and_balanced_books(seed):
    random = Random(seed)
    trace = random_trace(random, 30)
    config = Config(**random_dials(random))
    run = simulate(trace, config, check=True)
    document = strict_json(run.report())
    counts = document["requests"]
    assert counts["arrived"] == counts["finished"] + counts["rejected"] == 30
    assert document["free_at_end"] == config.num_slots
    assert document["swapped_out_blocks"] == document["swapped_in_blocks"]
    assert sum(document["ledger"][name] for name in NESTED_KEYS["ledger"] - {"pool"}) == pytest.approx(
        document["ledger"]["pool"]
    )
    assert document["preemptions"] == sum(entry["preemptions"] for entry in document["per_request"])
    assert document["prefix"]["hit_tokens"] == sum(entry["hit_tokens"] for entry in document["per_request"])
    for request, entry in zip(trace, document["per_request"], strict=True):
        if entry["status"] == "finished":
            assert entry["emitted"] == entry["output"] * request.width
            assert entry["arrival"] < entry["first_token"] <= entry["finish"] <= document["time_s"]
            assert entry["prefills"][0] == entry["prompt"] - entry["hit_tokens"]
