"""Simulated and measured ledger, step by step: the measured one is read from memory alone."""

from random import Random
from typing import Any

import numpy as np
import pytest

from engine.holes import Stranding, holes
from sim import simulate
from sim.ledger import CLASSES
from sim.request import Request
from tests.engine.running import CROWD, PRESSED, both, crowd, tiny
from tests.making import random_rows, requests

POLICIES = [
    PRESSED,
    {**PRESSED, "preempt": "swap", "swap_blocks": 5},
    {**PRESSED, "chunked_prefill": True, "max_batch_tokens": 20},
    {"allocator": "max", "pool_tokens": 450},
    {"allocator": "pow2", "pool_tokens": 300},
    {"allocator": "oracle", "pool_tokens": 200},
    {"allocator": "oracle", "pool_tokens": 200, "placement": "worst-fit"},
]


@pytest.mark.parametrize("dials", POLICIES, ids=lambda dials: "-".join(map(str, dials.values())))
def test_measured_and_simulated_ledger_agree_in_every_class_at_every_step(dials: dict[str, Any]) -> None:
    simulated, measured = simulate(CROWD, tiny(**dials)), crowd(**dials)
    assert measured.num_steps == simulated.num_steps
    for name in CLASSES:
        assert measured.series.column(name).tolist() == simulated.series.column(name).tolist(), name
    assert all(observation.faults.are_none for observation in measured.observations)


@pytest.mark.parametrize("dials", POLICIES, ids=lambda dials: "-".join(map(str, dials.values())))
def test_block_tables_read_from_the_tensor_are_those_of_the_simulated_log(dials: dict[str, Any]) -> None:
    simulated, measured = simulate(CROWD, tiny(**dials)), crowd(**dials)
    for observation in measured.observations:
        assert observation.block_tables == simulated.at(observation.step).block_tables


@pytest.mark.parametrize("seed", range(5))
def test_measured_live_equals_simulated_live_on_random_traces_under_pressure(seed: int) -> None:
    random = Random(seed)
    trace = requests(*random_rows(random, 14, longest=25, span_s=10))
    block_size = random.choice((1, 4, 16))
    config = tiny(
        pool_tokens=-(-72 // block_size) * block_size,
        block_size=block_size,
        preempt=random.choice(("recompute", "swap")),
        chunked_prefill=random.random() < 0.5,
        max_batch_tokens=64,
    )
    simulated, measured = both(trace, config)
    assert measured.num_preemptions == simulated.num_preemptions > 0
    assert measured.series.column("live").tolist() == simulated.series.column("live").tolist()


def test_the_crowd_shows_every_class_so_that_agreement_says_something() -> None:
    assert crowd(**POLICIES[0]).ledger["reserved"] > 0
    assert crowd(**POLICIES[3]).ledger["internal"] > 0
    assert crowd(**POLICIES[4]).ledger["rounding"] > 0
    assert crowd(**POLICIES[5]).ledger["external"] > 0


def test_holes_are_the_runs_of_free_slots() -> None:
    assert holes(np.array([1, 1, 0, 1, 0, 0, 1], dtype=np.bool_)) == [(0, 2), (3, 4), (6, 7)]
    assert holes(np.zeros(4, dtype=np.bool_)) == []


@pytest.mark.parametrize(
    ("is_buddy", "is_stranded"), [(False, False), (True, True)], ids=["first fit", "buddy"]
)
def test_an_unaligned_hole_strands_a_buddy_request_only(is_buddy: bool, is_stranded: bool) -> None:
    is_free = np.zeros(16, dtype=np.bool_)
    is_free[2:7] = True  # 5 slots, but no aligned 4
    head = Request(id="h", arrival_s=0.0, prompt=4, output=1, max_tokens=1)
    stranding = Stranding(lambda request, num_known: request.final_tokens, is_buddy)
    assert stranding.is_stranded(head, 4, is_free) == is_stranded


def test_free_slots_that_are_too_few_in_total_are_not_external() -> None:
    head = Request(id="h", arrival_s=0.0, prompt=9, output=1, max_tokens=1)
    stranding = Stranding(lambda request, num_known: 9, is_buddy=False)
    assert not stranding.is_stranded(head, 9, np.ones(8, dtype=np.bool_))
