"""`python -m bench.policies`: what it asks of every policy, on a model of which nothing has to be fetched."""

import json
from pathlib import Path
from typing import Any

import pytest

from bench import policies
from bench.peers.work import Work
from sim.alloc import ALLOCATORS

ROOT = Path(__file__).parents[2]
WORK = Work(
    prompts=[[*range(start, start + length)] for start, length in enumerate((43, 40, 55, 34, 50, 37))],
    outputs=[30, 34, 26, 20, 12, 8],
)


@pytest.fixture(autouse=True)
def on_the_tiny_model(monkeypatch: pytest.MonkeyPatch) -> None:
    small = {"model": "tiny", "pool_tokens": 2048, "max_len": 128, "max_seqs": 3}
    monkeypatch.setattr(policies, "COMMON", {**policies.COMMON, **small})
    for name, dials in policies.POLICIES.items():
        if dials.get("pool_tokens"):
            monkeypatch.setitem(policies.POLICIES, name, {**dials, "pool_tokens": 160})


def test_every_allocator_and_both_kinds_of_preemption_are_among_the_policies() -> None:
    all_dials = policies.POLICIES.values()
    assert {dials.get("allocator", "paged") for dials in all_dials} == set(ALLOCATORS)
    assert {dials.get("preempt", "recompute") for dials in all_dials} == {"recompute", "swap"}


def test_all_policies_say_the_same_and_are_what_was_simulated() -> None:
    trace = policies.trace_of(WORK)
    made = policies.document(trace, list(policies.POLICIES))
    assert len(made["policies"]) == len(policies.POLICIES)
    for name, entry in made["policies"].items():
        assert (entry["same_text"], entry["first_difference"]) == (6, None), name
    happened: dict[str, Any] = made["policies"]
    assert happened["recompute"]["preemptions"] > 0 and happened["swap"]["preemptions"] > 0
    assert happened["prefix-hash"]["hit_tokens"] > 0 and happened["prefix-radix"]["hit_tokens"] > 0
    assert happened["all-at-once"]["preemptions"] > 0 and happened["all-at-once"]["hit_tokens"] > 0
    assert happened["sequential"]["steps"] > happened["static"]["steps"] > happened["paged"]["steps"]
    assert happened["speculate"]["steps"] < happened["paged"]["steps"]


def test_a_policy_that_says_something_else_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(policies.POLICIES, "windowed", {"window": 8})
    made = policies.document(policies.trace_of(WORK), ["paged", "windowed"])["policies"]
    assert made["windowed"]["same_text"] < 6
    assert made["windowed"]["tokens_sha256"] != made["paged"]["tokens_sha256"]


def test_what_the_readme_says_of_the_real_model_is_what_was_kept() -> None:
    kept = json.loads((ROOT / "bench/results/policies.json").read_text(encoding="utf-8"))
    entries = kept["policies"]
    assert list(entries) == list(policies.POLICIES)
    assert kept["common"]["model"] == "smollm2-135m"
    for entry in entries.values():
        assert (entry["same_text"], entry["first_difference"]) == (kept["requests"], None)
    assert len({entry["tokens_sha256"] for entry in entries.values()}) == 1
    sentence = (
        f"`python -m bench.policies`: SmolLM2-135M says the same to {kept['requests']} prompts "
        f"({kept['output_tokens']:,} tokens) under all {len(entries)} policies"
    )
    assert sentence in " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
