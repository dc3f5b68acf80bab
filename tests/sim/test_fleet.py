"""Several replicas behind a router, on one clock."""

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from sim import Config, InputError, Request, Trace, simulate
from sim.fleet import ROUTERS, Fleet, simulate_fleet
from sim.fleet.router import LeastTokens, PrefixAffinity, RoundRobin
from tests.making import random_dials, random_rows, requests


@pytest.mark.parametrize("router", ROUTERS)
@pytest.mark.parametrize("seed", range(25))
def test_one_replica_behind_any_router_is_no_router(router: str, seed: int):
    random = Random(seed)
    trace, config = requests(*random_rows(random, 15)), Config(**random_dials(random))
    alone = simulate(trace, config)
    fleet = simulate_fleet(trace, config, Fleet(router=router), check=True)
    assert fleet.runs[0].events == alone.events
    assert list(fleet.runs[0].series.rows()) == list(alone.series.rows())
    expected, report = alone.report(), fleet.report()
    assert fleet.runs[0].report() == {**expected, "meta": {"replica": 0}}
    assert [entry.pop("replica") for entry in report["per_request"]] == [0] * len(trace)
    for key in expected.keys() - {"config", "meta", "time_s", "idle_s", "batch"}:
        assert report[key] == expected[key], key
    for key in ("time_s", "idle_s"):
        assert report[key] == pytest.approx(expected[key])
    assert report["batch"] == pytest.approx(expected["batch"])


@pytest.mark.parametrize("router", ROUTERS)
@pytest.mark.parametrize("seed", range(15))
def test_every_request_is_served_by_one_replica(router: str, seed: int):
    random = Random(seed)
    trace, config = requests(*random_rows(random, 30)), Config(**random_dials(random))
    fleet = simulate_fleet(trace, config, Fleet(replicas=3, router=router), check=True)
    served = sorted(request.id for run in fleet.runs for request in run.trace.requests)
    assert served == sorted(request.id for request in trace)
    report = fleet.report()
    assert report["requests"]["arrived"] == len(trace)
    assert report["requests"]["unfinished"] == 0
    assert [entry["id"] for entry in report["per_request"]] == [request.id for request in trace]
    assert report["prefix"]["prompt_tokens"] == sum(
        run.report()["prefix"]["prompt_tokens"] for run in fleet.runs
    )


def test_what_a_replica_does_is_what_it_would_do_with_its_requests_alone():
    trace, config = Trace.read("long-tail").first(60), Config(pool_blocks=200)
    fleet = simulate_fleet(trace, config, Fleet(replicas=2, router="least-tokens"))
    for run in fleet.runs:
        assert run.events == simulate(run.trace, config).events


@pytest.mark.parametrize("router", ROUTERS)
def test_two_runs_are_the_same(router: str):
    trace, fleet = Trace.read("shared-prefix"), Fleet(replicas=3, router=router, borrow=True)
    one, other = (simulate_fleet(trace, Config(pool_blocks=60), fleet) for _ in range(2))
    assert [run.events for run in one.runs] == [run.events for run in other.runs]
    assert one.report() == other.report()


def request(id: str, **fields: Any) -> Request:
    return replace(Request(id=id, arrival_s=0.0, prompt=8, output=4, max_tokens=4), **fields)


def test_round_robin_takes_turns():
    router = RoundRobin(Config())
    assert [router.choose(request("r"), [0, 9, 9]) for _ in range(4)] == [0, 1, 2, 0]


def test_least_tokens_takes_the_first_of_the_least_loaded():
    assert LeastTokens(Config()).choose(request("r"), [7, 3, 3]) == 1


def test_a_replica_is_relieved_of_a_request_that_ended():
    # the third comes when the first two have ended, and finds both replicas idle
    trace = requests((8, 4, 0), (4, 2, 0), (8, 4, 20))
    fleet = simulate_fleet(trace, Config(timing="unit"), Fleet(replicas=2, router="least-tokens"))
    assert fleet.replica_of == {"r0": 0, "r1": 1, "r2": 0}


def test_a_replica_is_relieved_of_a_request_that_it_rejected():
    trace = requests((5000, 4, 0), (8, 4, 1), (8, 4, 2))
    fleet = simulate_fleet(trace, Config(timing="unit"), Fleet(replicas=2, router="least-tokens"))
    assert fleet.replica_of == {"r0": 0, "r1": 0, "r2": 1}


def test_affinity_follows_the_longest_known_start_of_a_prompt():
    router = PrefixAffinity(Config(block_size=4))
    tokens = tuple(range(16))
    known = request("a", prompt=16, tokens=tokens)
    assert router.choose(known, [5, 0]) == 1  # nobody knows it: least loaded
    assert router.choose(replace(known, id="b"), [0, 20]) == 1  # whole prompt known there
    half = request("c", prompt=16, tokens=(*tokens[:8], *range(90, 98)))
    assert router.choose(half, [0, 20]) == 1
    less = request("d", prompt=16, tokens=(*tokens[:4], *range(80, 92)))
    assert router.choose(less, [0, 20]) == 0  # a quarter: not worth it


def test_affinity_gives_way_where_a_replica_is_too_busy():
    router = PrefixAffinity(Config(block_size=4))
    known = request("a", prompt=16, tokens=tuple(range(16)))
    assert router.choose(known, [0, 0]) == 0
    assert router.choose(replace(known, id="b"), [40, 10]) == 0  # 40 <= 2 x 10 + 20
    assert router.choose(replace(known, id="c"), [41, 10]) == 1


def test_affinity_finds_more_in_the_prefix_caches_than_turns_do():
    trace = Trace(
        "chats",
        tuple(
            Request(
                id=f"r{k}", arrival_s=float(k), prompt=80, output=4, max_tokens=4, prefix=f"chat{k * 7 % 4}",
                prefix_tokens=64,
            )
            for k in range(40)
        ),
    )  # fmt: skip
    config = Config(prefix_cache="hash", timing="unit")
    hits = {
        router: simulate_fleet(trace, config, Fleet(replicas=2, router=router)).report()["prefix"][
            "hit_tokens"
        ]
        for router in ("round-robin", "prefix-affinity")
    }
    assert hits["prefix-affinity"] == 36 * 64  # all but the first of each of four chats
    assert hits["round-robin"] <= hits["prefix-affinity"]


@pytest.mark.parametrize(
    ("dials", "message"),
    [
        ({"replicas": 0}, "replicas 0: must be at least 1"),
        ({"router": "robin"}, "unknown router 'robin': did you mean 'round-robin'"),
        ({"borrow": True}, "--borrow without --replicas: a single server has no neighbour"),
    ],
)
def test_impossible_fleets_are_refused(dials: dict[str, Any], message: str):
    with pytest.raises(InputError, match=message):
        Fleet(**dials)


@pytest.mark.parametrize(
    ("dials", "message"),
    [
        ({"allocator": "max"}, "--borrow with --allocator max: only blocks can lie anywhere"),
        ({"prefix_cache": "radix"}, "--borrow with --prefix-cache radix: a borrowed block goes back"),
        (
            {"window": 8},
            "--borrow with --window 8: a step would be charged for borrowed tokens that no query",
        ),
        ({"keep_recent": 8, "keep_heavy": 0}, "--borrow with --keep-recent 8: "),
        ({"timing": "costs.json"}, "--borrow with --timing costs.json: the file says nothing of the link"),
    ],
)
def test_servers_that_cannot_lend_are_refused(
    dials: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    Path("costs.json").write_text('{"seconds": {"step": 1}}')
    with pytest.raises(InputError, match=message):
        simulate_fleet(requests((8, 4)), Config(**dials), Fleet(replicas=2, borrow=True))


def test_neighbours_keep_the_tables_that_a_lone_server_keeps():
    trace, config = requests((8, 4), (8, 4)), Config(table="two-level", pool_blocks=16)
    lending, alone = (
        simulate_fleet(trace, config, Fleet(replicas=2, borrow=borrow)).report() for borrow in (True, False)
    )
    assert lending["table_bytes"] == alone["table_bytes"] > 0
