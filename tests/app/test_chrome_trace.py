"""The Chrome trace: valid by its own rules, and true to the log that it was made from."""

import io
import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

from app.chrome_trace import ChromeTrace, chrome_trace_of, write_chrome_trace
from app.cli import run as pagelab
from sim import Config, Run, simulate
from sim.events import EventLog, Kind, Tee
from sim.ledger import CLASSES
from tests.making import random_dials, random_rows, requests

REQUIRED = {
    "M": {"name", "pid", "tid", "args"},
    "X": {"name", "cat", "ts", "dur", "pid", "tid"},
    "C": {"name", "ts", "pid", "tid", "args"},
    "i": {"name", "ts", "pid", "tid", "s", "args"},
}


def document(*traces: ChromeTrace) -> dict[str, Any]:
    out = io.BytesIO()
    write_chrome_trace(traces, out)
    return json.loads(out.getvalue())


def check_schema(trace: dict[str, Any]) -> None:
    """What Perfetto's importer needs: phases it knows, numbers where numbers belong, names first."""
    assert trace["displayTimeUnit"] == "ms"
    last = 0.0
    for event in trace["traceEvents"]:
        assert event["ph"] in REQUIRED
        assert event.keys() >= REQUIRED[event["ph"]], event
        assert isinstance(event["pid"], int) and isinstance(event["tid"], int)
        assert isinstance(event["ts"], (int, float)) and event["ts"] >= last, "times go back"
        last = event["ts"]
        if event["ph"] == "X":
            assert event["dur"] >= 0
        if event["ph"] == "i":
            assert event["s"] == "t" and event["args"]["why"]
        if event["ph"] == "C":
            assert all(isinstance(value, (int, float)) for value in event["args"].values())
    named = {
        (e["pid"], e["tid"]) for e in trace["traceEvents"] if e["name"] in ("thread_name", "process_name")
    }
    assert {(e["pid"], e["tid"]) for e in trace["traceEvents"]} <= named | {(e[0], 0) for e in named}


def spans_of(trace: dict[str, Any]) -> dict[str, list[tuple[str, float, float]]]:
    """Phase, start and end in seconds, by request."""
    events = trace["traceEvents"]
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    spans: dict[str, list[tuple[str, float, float]]] = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            end = (event["ts"] + event["dur"]) / 1e6
            spans[names[event["tid"]]].append((event["name"], event["ts"] / 1e6, end))
    return spans


@pytest.mark.parametrize("seed", range(40))
def test_every_trace_is_valid_and_the_spans_of_a_request_follow_each_other(seed: int):
    random = Random(seed)
    run = simulate(requests(*random_rows(random, 15)), Config(**random_dials(random)))
    trace = document(chrome_trace_of(run.events, "made"))
    check_schema(trace)
    spans = spans_of(trace)
    for entry in run.requests:
        mine = spans[entry["id"]]
        for (_, _, end), (_, start, _) in pairwise(mine):
            assert start == pytest.approx(end)
        if entry["status"] == "finished":
            assert mine[-1][2] == pytest.approx(entry["finish"])
            first_token = next(end for name, _, end in mine if name == "prefill")
            if entry["preemptions"] == 0:
                assert first_token == pytest.approx(entry["first_token"])


def test_a_sink_beside_another_sees_what_the_kept_log_holds():
    trace, config = requests((8, 8), (8, 8)), Config(pool_blocks=4, block_size=4, max_len=64)
    kept, drawn = EventLog(), ChromeTrace("made")
    simulate(trace, config, log=Tee(kept, drawn))
    assert document(drawn) == document(chrome_trace_of(kept.events, "made"))


def thrashing(**dials: Any) -> Run:
    """Two requests of 8 + 8 tokens in 4 blocks of 4: the younger one gives way after the first step."""
    config = Config(pool_blocks=4, block_size=4, max_len=64, timing="unit", **dials)
    return simulate(requests((8, 8), (8, 8)), config)


def test_a_recomputed_request_queues_and_prefills_again():
    spans = spans_of(document(chrome_trace_of(thrashing().events, "made")))
    assert spans["r0"] == [("queue", 0, 0), ("prefill", 0, 1), ("decode", 1, 8)]
    assert spans["r1"] == [
        ("queue", 0, 0), ("prefill", 0, 1), ("decode", 1, 1),
        ("queue", 1, 8), ("prefill", 8, 9), ("decode", 9, 15),
    ]  # fmt: skip


def test_a_swapped_request_is_away_and_goes_on_decoding():
    spans = spans_of(document(chrome_trace_of(thrashing(preempt="swap").events, "made")))
    assert spans["r1"] == [
        ("queue", 0, 0), ("prefill", 0, 1), ("decode", 1, 1), ("swapped", 1, 8), ("decode", 8, 15),
    ]  # fmt: skip


def test_a_prefill_in_chunks_is_one_span():
    config = Config(timing="unit", chunked_prefill=True, max_batch_tokens=10)
    spans = spans_of(document(chrome_trace_of(simulate(requests((25, 3)), config).events, "made")))
    assert spans["r0"] == [("queue", 0, 0), ("prefill", 0, 3), ("decode", 3, 5)]


def test_instants_say_why_and_counters_sum_to_the_pool():
    run = thrashing()
    events = document(chrome_trace_of(run.events, "made"))["traceEvents"]
    preempted = next(event for event in events if event["name"] == "preempt")
    assert preempted["args"]["why"] == "r0 needs 1 block, 0 free; request r1 is the youngest running request"
    ledgers = [event for event in events if event["name"] == "ledger"]
    assert len(ledgers) == run.num_steps
    assert all(sum(event["args"][name] for name in CLASSES) == 16 for event in ledgers)


def test_every_kind_that_matters_has_an_instant():
    run = thrashing()
    drawn = {event["name"] for event in document(chrome_trace_of(run.events, "made"))["traceEvents"]}
    assert {Kind.ADMIT, Kind.PREEMPT, Kind.FINISH} <= drawn


def test_replicas_are_processes_of_one_file(tmp_path: Path):
    path = tmp_path / "trace.json"
    command = ["simulate", "shared-prefix", "--replicas", "2", "--borrow", "--pool-blocks", "60", "--quiet"]
    assert pagelab([*command, "--chrome-trace", str(path)]) == 0
    trace = json.loads(path.read_bytes())
    check_schema(trace)
    names = {e["pid"]: e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "process_name"}
    assert names == {1: "paged.replica0", 2: "paged.replica1"}


def test_allocators_are_processes_of_one_file(tmp_path: Path):
    path = tmp_path / "trace.json"
    command = ["simulate", "four-requests", "--allocator", "max", "--allocator", "paged", "--quiet"]
    assert pagelab([*command, "--chrome-trace", str(path)]) == 0
    trace = json.loads(path.read_bytes())
    check_schema(trace)
    assert {event["pid"] for event in trace["traceEvents"]} == {1, 2}
