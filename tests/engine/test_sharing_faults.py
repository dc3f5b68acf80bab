"""Where blocks may be shared or cached: sharing that no event made, and content that outlives its use."""

from dataclasses import replace
from typing import Any

import pytest

import engine.blockwork
from engine import EngineFault
from engine.pool import PagedPool
from engine.rows import TableRows
from sim import Trace
from sim.events import Event
from tests.engine.running import assert_exact, both, tiny
from tests.making import request, requests

PAIR = Trace("pair", (request("p", 10, 6, n=2), request("q", 9, 6)))
AGAIN = Trace(
    "again",
    tuple(replace(one, tokens=(7,) * one.prompt) for one in requests((13, 3), (2, 2), (9, 4, 9.0)).requests),
)
FEW = tiny(pool_tokens=96, block_size=4)
CACHED = tiny(pool_tokens=64, block_size=4, prefix_cache="hash")


def faults(trace: Trace, config: Any = FEW) -> list[Any]:
    try:
        observations = both(trace, config)[1].observations
    except EngineFault as fault:  # what is wrong in memory may stop the engine in the end
        observations = fault.observations
    return [observation.faults for observation in observations]


def test_blocks_shared_by_a_fork_are_no_fault() -> None:
    _, measured = assert_exact(PAIR, FEW)
    assert measured.observations[0].block_tables["p/0"] == measured.observations[0].block_tables["p/1"]


def test_a_block_of_another_request_in_a_forked_table_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """q's first block gets into the row of p's second sample, beside blocks that are rightly shared."""
    replaced = TableRows.replace

    def steals(table: TableRows, name: str, blocks: list[int]) -> None:
        replaced(table, name, [*blocks[:-1], table.blocks["q"][0]])

    monkeypatch.setattr(TableRows, "replace", steals)
    assert faults(PAIR)[0].shared == 1


def test_a_fork_that_the_engine_takes_for_an_allocation_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        PagedPool, "fork", lambda pool, name, event: pool.table.replace(name, event.changes["blocks"])
    )
    assert faults(PAIR)[0].shared == 3


def test_cached_content_is_no_stray_and_what_is_freed_beside_it_must_be_empty(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, measured = assert_exact(AGAIN, CACHED)
    assert all(observation.faults.are_none for observation in measured.observations)
    monkeypatch.setattr(engine.blockwork, "fill", lambda pool, indices: None)
    assert (
        faults(AGAIN, CACHED)[-1].stray == 3
    )  # the last block of r0 or of r1, neither full; r2 took the other


def test_a_cached_block_that_was_wiped_is_seen_as_a_gap_once_it_is_hit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    free = PagedPool.free

    def forgets_the_cache(pool: PagedPool, name: str, event: Event) -> None:
        changes = {key: value for key, value in event.changes.items() if key != "cached"}
        free(pool, name, replace(event, changes=changes))

    monkeypatch.setattr(PagedPool, "free", forgets_the_cache)
    assert faults(AGAIN, CACHED)[-1].gaps == 8  # two full blocks of the prompt of 9 were found
