"""Faults planted in the engine are seen in memory, in the step in which they happen."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import engine.attend
import engine.blockwork
import engine.pool
import engine.rows
from engine.probe import Faults
from sim import simulate
from tests.engine.running import both, tiny
from tests.making import requests

TRACE = requests((21, 6), (9, 8, 2.0))
PAGED, MAX = {"pool_tokens": 256}, {"allocator": "max", "pool_tokens": 256}
POOLS = pytest.mark.parametrize("dials", [PAGED, MAX], ids=["paged", "max"])
Write = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], None]


def plant(monkeypatch: pytest.MonkeyPatch, fault: Callable[[Write], Write]) -> None:
    """Replaces `write_kv` of both pools by a faulty one."""
    monkeypatch.setattr(engine.attend, "write_kv", fault(engine.attend.write_kv))


def faults_by_step(dials: dict[str, Any]) -> tuple[list[Faults], list[int], list[int]]:
    """Faults, measured live slots and simulated live slots of each step."""
    simulated, measured = both(TRACE, tiny(**dials))
    live = [observation.ledger.live for observation in measured.observations]
    return [o.faults for o in measured.observations], live, simulated.series.column("live").tolist()


@POOLS
def test_a_sound_run_shows_no_fault_at_any_step(dials: dict[str, Any]) -> None:
    faults, measured, simulated = faults_by_step(dials)
    assert all(fault.are_none for fault in faults)
    assert measured == simulated


@POOLS
@pytest.mark.parametrize(("offset", "first_slot"), [(1, 0), (2, 0)])
def test_slots_off_by_one_are_seen_in_the_first_step(
    dials: dict[str, Any], offset: int, first_slot: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The count of written slots stays right, so only the places can tell."""

    def off_by(write: Write) -> Write:
        return lambda key, value, keys, values, slots: write(key, value, keys, values, slots + offset)

    plant(monkeypatch, off_by)
    faults, measured, simulated = faults_by_step(dials)
    assert measured[0] == simulated[0]
    assert faults[0].gaps > 0
    assert faults[0].first_slot == first_slot


@POOLS
def test_a_token_that_is_not_written_is_seen_in_the_first_step(
    dials: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def drops_last(write: Write) -> Write:
        return lambda key, value, keys, values, slots: write(key[:-1], value[:-1], keys, values, slots[:-1])

    plant(monkeypatch, drops_last)
    _, measured, simulated = faults_by_step(dials)
    assert measured[0] == simulated[0] - 1


@POOLS
def test_values_left_out_are_seen_as_torn_slots(
    dials: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def keys_only(write: Write) -> Write:
        return lambda key, value, keys, values, slots: write(key, key, keys, keys, slots)

    plant(monkeypatch, keys_only)
    faults, _, simulated = faults_by_step(dials)
    assert faults[0].torn == simulated[0]


def test_a_write_outside_every_block_table_is_seen_as_stray(monkeypatch: pytest.MonkeyPatch) -> None:
    def also_last_slot(write: Write) -> Write:
        def faulty(key: Tensor, value: Tensor, keys: Tensor, values: Tensor, slots: Tensor) -> None:
            write(key, value, keys, values, slots)
            write(key[:1], value[:1], keys, values, torch.tensor([255]))

        return faulty

    plant(monkeypatch, also_last_slot)
    faults, measured, simulated = faults_by_step(PAGED)
    assert faults[0] == Faults(torn=0, stray=1, gaps=0, shared=0, first_slot=255)
    assert measured[0] == simulated[0]  # what nobody holds is not live


def test_a_block_in_two_tables_is_seen_as_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    def first_block_only(table: engine.rows.TableRows, name: str, blocks: list[int]) -> None:
        extend(table, name, blocks)
        table._changed = dict.fromkeys(table._changed, 0)

    extend = engine.rows.TableRows.extend
    monkeypatch.setattr(engine.rows.TableRows, "extend", first_block_only)
    faults, _, _ = faults_by_step(PAGED)
    assert faults[0].shared == 1  # 21 tokens hold two blocks of 16


def test_a_block_that_is_not_poisoned_on_release_is_seen_as_stray_or_live_too_early(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine.blockwork, "fill", lambda pool, indices: None)
    faults, _, _ = faults_by_step(PAGED)
    assert all(fault.are_none for fault in faults[:6])  # r0 leaves after step 6
    assert faults[6].stray > 0


@POOLS
def test_the_written_mask_is_the_one_that_the_simulated_log_foretells(dials: dict[str, Any]) -> None:
    config = tiny(**dials)
    simulated, measured = both(TRACE, config)
    for observation in measured.observations:
        expected = simulated.at(observation.step).written(config.num_slots, config.block_size)
        assert (observation.written() == expected).all()


def test_written_counts_name_each_request() -> None:
    _, measured = both(TRACE, tiny(pool_tokens=256))
    assert measured.observations[0].num_written == {"r0": 21}
    assert measured.observations[2].num_written == {"r0": 23, "r1": 9}
    assert simulate(TRACE, tiny(pool_tokens=256)).at(3).stored == {"r0": 23, "r1": 9}
