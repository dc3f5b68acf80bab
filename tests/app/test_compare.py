"""`pagelab compare`: it agrees where all is well, and says what differs first where something is not."""

import json
import re

import pytest
import torch

import engine.attend
import engine.flat
from app.cli import run
from engine.pool import PagedPool
from sim.alloc import PagedAllocator

CROWDED = ["--pool-tokens", "256", "--block-size", "8", "--max-len", "96", "--timing", "unit", "--quiet"]


@pytest.fixture
def trace(tmp_path) -> str:
    """Twelve requests that together want far more than 256 slots."""
    path = tmp_path / "trace.jsonl"
    rows = [
        {"id": f"r{i}", "arrival": i % 3, "prompt": 9 + 5 * (i % 5), "output": 6 + 7 * (i % 4)}
        for i in range(12)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def compare(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict]:
    capsys.readouterr()
    code = run(["compare", *arguments, *CROWDED, "--json", "--device", "cpu"])
    return code, json.loads(capsys.readouterr().out)


def test_simulated_and_measured_agree_to_the_slot_under_every_allocator(capsys, trace):
    code, document = compare(capsys, trace)
    assert code == 0
    assert [row["allocator"] for row in document["agreement"]] == ["max", "pow2", "oracle", "paged"]
    for row in document["agreement"]:
        assert row["block_tables_identical"] is True
        assert row["ledger_max_abs_diff_slots"] == 0
        assert row["first_difference"] is None
        assert row["steps_compared"] > 20
        assert row["time_error_percent"] is None  # a unit clock counts steps, not seconds
    assert [(entry["allocator"], entry["source"]) for entry in document["runs"]][:2] == [
        ("max", "simulated"),
        ("max", "measured"),
    ]


@pytest.mark.parametrize("mode", ["recompute", "swap"])
def test_they_agree_through_preemption(capsys, trace, mode):
    code, document = compare(capsys, trace, "--allocator", "paged", "--preempt", mode)
    assert code == 0
    assert document["runs"][0]["preemptions"] == document["runs"][1]["preemptions"] > 0


def test_the_simulator_takes_its_pool_from_the_engine(capsys, trace):
    _, document = compare(capsys, trace, "--allocator", "paged")
    simulated, measured = document["runs"]
    facts = measured["meta"]["engine"]
    assert (
        simulated["config"]["pool_tokens"] == facts["num_slots"] == facts["num_blocks"] * facts["block_size"]
    )
    assert facts["kv_bytes_per_token"] == measured["config"]["kv_bytes_per_token"]


def test_an_off_by_one_in_the_slot_mapping_is_named_at_its_first_step(capsys, trace, monkeypatch):
    """Each token goes one slot too far: the counts are right, the places are not."""
    original = PagedPool.bind

    def off_by_one(self, batch, backend):
        bound = original(self, batch, backend)
        bound.slots += 1
        return bound

    monkeypatch.setattr(PagedPool, "bind", off_by_one)
    code, document = compare(capsys, trace, "--allocator", "paged")
    assert code == 1
    first = document["agreement"][0]["first_difference"]
    assert first["step"] == 1
    assert "slot 0 (token 0 of r0) should hold keys and values and is empty" in first["what"]


def test_a_fault_that_starts_later_is_named_at_the_step_where_it_starts(capsys, trace, monkeypatch):
    original = PagedPool.alloc
    faulty: list[int] = []

    def swaps_two_blocks(self, request, event):
        if event.step >= 7:
            faulty.append(event.step)
            event.changes["blocks"][:] = [(block + 1) % 32 for block in event.changes["blocks"]]
        original(self, request, event)

    monkeypatch.setattr(PagedPool, "alloc", swaps_two_blocks)
    code, document = compare(capsys, trace, "--allocator", "paged")
    assert code == 1
    row = document["agreement"][0]
    assert row["block_tables_identical"] is False
    assert row["first_difference"]["step"] == faulty[0]
    assert "block table of" in row["first_difference"]["what"]


def test_a_leaked_block_is_named(capsys, trace, monkeypatch):
    """The engine forgets to take the last block of a freed request out of its table."""
    original = PagedPool.free

    def leaks(self, request, event):
        if len(event.changes["blocks"]) > 1:
            event.changes["blocks"].pop()
        original(self, request, event)

    monkeypatch.setattr(PagedPool, "free", leaks)
    code, document = compare(capsys, trace, "--allocator", "paged")
    assert code == 1
    assert document["agreement"][0]["first_difference"]["step"] > 1


def test_a_block_leaked_by_the_shared_allocator_is_found_at_the_end(capsys, trace, monkeypatch):
    """Both sides leak alike, so their tables agree: it is the ledger that does not add up."""
    original = PagedAllocator.release

    def leaks(self, group, why):
        self.tables[group.sequences[0]].pop()
        original(self, group, why)

    monkeypatch.setattr(PagedAllocator, "release", leaks)
    assert run(["compare", trace, *CROWDED, "--allocator", "paged", "--device", "cpu"]) == 1
    assert re.search(r"step \d+: ledger does not add up: .* the pool has 256 slots", capsys.readouterr().err)


def test_keys_written_in_one_layer_only_are_found(capsys, trace, monkeypatch):
    original = engine.attend.write_kv

    def forgets_the_values(key, value, key_cache, value_cache, slots):
        original(key, torch.full_like(value, torch.nan), key_cache, torch.empty_like(value_cache), slots)

    monkeypatch.setattr(engine.attend, "write_kv", forgets_the_values)
    code, document = compare(capsys, trace, "--allocator", "paged")
    assert code == 1
    assert "written in part" in document["agreement"][0]["first_difference"]["what"]
