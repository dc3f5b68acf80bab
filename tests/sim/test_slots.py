"""Whole servers with everything on: the ledger by definition, the log as the only witness, nothing lost."""

from collections.abc import Callable
from random import Random

import pytest

from sim import Config
from sim.ledger import CLASSES, take_ledger
from tests.sim.fuzzing import (
    contending_groups,
    dials_of_contention,
    random_drafts,
    random_heavy,
    random_paged_dials,
    random_trace,
    random_window,
)
from tests.sim.slot_by_slot import classify
from tests.sim.witness import Witness

KINDS: dict[str, Callable[[Random], dict]] = {
    "plain": lambda random: {},
    "window": lambda random: {**random_window(random), "prefix_cache": random.choice(("off", "hash"))},
    "heavy": lambda random: {**random_heavy(random), "prefix_cache": "off"},
    "drafts": random_drafts,
    "window and drafts": lambda random: {
        **random_window(random), **random_drafts(random), "prefix_cache": random.choice(("off", "hash")),
    },
    "heavy and drafts": lambda random: {
        **random_heavy(random), **random_drafts(random), "prefix_cache": "off",
    },
}  # fmt: skip


def one_case(kind: str, seed: int):
    random = Random(f"{kind} {seed}")
    if kind == "comes back":
        return contending_groups(random), Config(**dials_of_contention(random))
    config = Config(**random_paged_dials(random, **KINDS[kind](random)))
    return random_trace(random, widths=(1,) if config.speculate else (1, 1, 1, 2, 3, 4)), config


def check_case(watched, kind: str, seed: int):
    trace, config = one_case(kind, seed)

    def look(scheduler):
        tables = {one.name: list(table) for one, table in scheduler.allocator.tables.items()}
        ledger = take_ledger(scheduler)
        ours = {name: getattr(ledger, name) for name in CLASSES}
        return ours, classify(scheduler, config), tables

    run, seen = watched(trace, config, look)
    for step, (state, (ours, slow, tables)) in enumerate(
        zip(run.replay.states(), seen, strict=True), start=1
    ):
        assert ours == slow, f"step {step}"
        assert state.block_tables == tables, f"step {step}: the log tells other tables"
        dropped = sum(state.stored[name] for name in tables)  # at least: what is not shared
        written = int(state.written(config.num_slots, config.block_size).sum())
        assert ours["live"] + ours["cached"] <= written <= dropped + ours["cached"], f"step {step}"
    report = run.report()
    assert report["requests"]["unfinished"] == 0
    assert report["free_at_end"] == config.num_slots
    emitted = {one["id"]: one["emitted"] for one in report["per_request"] if one["status"] == "finished"}
    wanted = {one.id: one.output * one.width for one in trace.requests if one.id in emitted}
    assert emitted == wanted
    Witness(run)
    return run


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(20))
def test_every_slot_is_where_the_definition_puts_it(watched, kind, seed):
    check_case(watched, kind, seed)


@pytest.mark.parametrize("seed", range(40))
def test_requests_of_several_sequences_that_come_back_find_what_they_left(watched, seed):
    check_case(watched, "comes back", seed)
