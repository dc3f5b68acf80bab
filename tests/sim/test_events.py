"""The log: one total order, the same bytes every time, and a sentence with numbers for everything."""

from random import Random

import orjson
import pytest

from sim import Config, simulate
from sim.events import Kind
from tests.making import random_dials, random_trace, requests


def random_case(seed):
    random = Random(seed)
    return random_trace(random, 25), Config(**random_dials(random))


@pytest.mark.parametrize("seed", range(10))
def test_two_runs_give_the_same_bytes(seed):
    trace, config = random_case(seed)
    first, second = (simulate(trace, config) for _ in range(2))
    assert [orjson.dumps(e.as_json()) for e in first.events] == [
        orjson.dumps(e.as_json()) for e in second.events
    ]
    assert orjson.dumps(first.report()) == orjson.dumps(second.report())


@pytest.mark.parametrize("seed", range(10))
def test_a_run_that_keeps_no_events_has_the_same_report(seed):
    trace, config = random_case(seed)
    silent = simulate(trace, config, record=False)
    assert silent.events == []
    assert silent.report() == simulate(trace, config).report()


@pytest.mark.parametrize("seed", range(15))
def test_events_are_in_order_of_time_and_step(seed):
    run = simulate(*random_case(seed))
    keys = [(event.time, event.step) for event in run.events]
    assert keys == sorted(keys)
    steps = [event.step for event in run.events if event.kind == "step"]
    assert steps == list(range(1, run.num_steps + 1))


@pytest.mark.parametrize("seed", range(15))
def test_every_request_arrives_once_and_is_either_rejected_or_finished_last(seed):
    trace, config = random_case(seed)
    run = simulate(trace, config)
    for request in trace:
        kinds = [event.kind for event in run.events if event.request == request.id]
        assert kinds[0] == "arrive"
        assert kinds.count("arrive") == 1
        if "reject" in kinds:
            assert kinds == ["arrive", "reject"]
            continue
        assert kinds[-1 - request.width :] == ["finish", *["free"] * request.width]
        assert kinds.count("finish") == 1
        back = kinds.count("admit") + kinds.count("swap_in")
        assert back == 1 + kinds.count("preempt")


@pytest.mark.parametrize("seed", range(15))
def test_blocks_and_ranges_that_are_taken_are_given_back(seed):
    trace, config = random_case(seed)
    width = {request.id: request.width for request in trace}
    tables: dict[tuple, list] = {}
    for event in simulate(trace, config).events:
        changes, who = event.changes, (event.request, event.changes.get("sequence", 0))
        pieces = changes.get("blocks", [tuple(changes.get("slots", ()))])
        match event.kind:
            case "alloc":
                tables[who] = [*tables.get(who, ()), *pieces] if "blocks" in changes else pieces
            case "move":
                assert tables[who] == [tuple(changes["source_slots"])]
                tables[who] = [tuple(changes["destination_slots"])]
            case "hit" | "fork":
                tables[who] = pieces
            case "copy" if "source" in changes:
                assert tables[who][changes["place"]] == changes["source"]
                tables[who] = [changes["destination"] if b == changes["source"] else b for b in tables[who]]
            case "free":
                shared = changes.get("shared", [])
                if "sequence" in changes or width[event.request] == 1:
                    assert sorted(tables.pop(who)) == sorted([*pieces, *shared])
                left = {piece for table in tables.values() for piece in table}
                assert left.isdisjoint(pieces), "freed, though somebody still holds it"
                assert left.issuperset(shared), "kept, though nobody holds it"
    assert tables == {}


@pytest.mark.parametrize("seed", range(10))
def test_every_event_says_why_in_one_line(seed):
    run = simulate(*random_case(seed))
    assert all(event.why and "\n" not in event.why for event in run.events)


def test_an_event_as_json_is_flat_and_names_its_kind():
    run = simulate(requests((8, 1)), Config(timing="unit", pool_blocks=2, block_size=4))
    alloc = next(event for event in run.events if event.kind is Kind.ALLOC)
    line = alloc.as_json()
    assert line.pop("why") == "8 tokens: 2 blocks of 4, 0 left free"
    assert line == {"kind": "alloc", "step": 1, "time": 0.0, "request": "r0", "blocks": [0, 1]}


def test_memory_moves_when_a_step_starts_and_tokens_appear_when_it_ends():
    run = simulate(requests((8, 1, 5.0)), Config(timing="unit", pool_blocks=2, block_size=4))
    times = {str(event.kind): event.time for event in run.events}
    assert times == {
        "arrive": 5.0, "alloc": 5.0, "admit": 5.0, "prefill": 6.0, "step": 6.0, "finish": 6.0, "free": 6.0
    }  # fmt: skip


def test_a_step_closes_with_what_it_ran_and_its_ledger():
    run = simulate(requests((8, 2), (8, 2), (12, 1)), Config(timing="unit", pool_blocks=6, block_size=4))
    step = next(event for event in run.events if event.kind == "step")
    assert step.changes == {
        "duration": 1.0, "tokens": 16, "batch": 2, "running": 2, "waiting": 1, "swapped": 0,
        "ledger": {
            "pool": 24, "live": 16, "reserved": 0, "internal": 0, "rounding": 0, "cached": 0, "external": 0,
            "free": 8,
        },
    }  # fmt: skip
