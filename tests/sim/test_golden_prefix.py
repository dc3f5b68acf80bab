"""vLLM 0.32's own block pool with prefix caching, on 99 random traces: the same hits, steps and preemptions.

How `data/vllm_golden.jsonl.gz` was made: shared/notes/vllm_oracle.md. Resumed requests hit their own old
blocks there, and requests hit what an earlier one of the same step fills.
"""

import gzip
import json
from functools import cache
from pathlib import Path

import pytest

from sim import Config, Request, Trace, simulate

GOLDEN = Path(__file__).parent / "data" / "vllm_golden.jsonl.gz"


@cache
def scenarios() -> list[dict]:
    with gzip.open(GOLDEN, "rt") as lines:
        return [case for case in map(json.loads, lines) if case["scenario"]["prefix"]]


def test_there_are_99_scenarios_with_241_preemptions_and_3784_tokens_hit():
    cases = scenarios()
    assert len(cases) == 99
    assert sum(sum(case["vllm"]["preempted"].values()) for case in cases) == 241
    assert sum(sum(case["vllm"]["hits"].values()) for case in cases) == 3784


@pytest.mark.parametrize("prefix_cache", ["hash", "radix"])
@pytest.mark.parametrize("case", scenarios(), ids=lambda case: str(case["scenario"]["seed"]))
def test_hits_steps_finishes_and_preemptions_are_vllms(case, prefix_cache):
    scenario, vllm = case["scenario"], case["vllm"]
    rows = [
        Request(
            id=id,
            arrival_s=float(at),
            prompt=len(prompt),
            output=output,
            max_tokens=output,
            tokens=tuple(prompt),
        )
        for id, prompt, output, at in sorted(scenario["rows"], key=lambda row: row[3])
    ]
    config = Config(
        pool_blocks=scenario["blocks"],
        block_size=scenario["block_size"],
        max_seqs=scenario["max_seqs"],
        max_batch_tokens=scenario["budget"],
        chunked_prefill=True,
        max_len=100_000,
        timing="unit",
        prefix_cache=prefix_cache,
    )
    run = simulate(Trace("golden", tuple(rows)), config, check=True)
    assert {group.request.id: group.finish_s for group in run.groups} == vllm["finish"]
    assert {g.request.id: g.preemptions for g in run.groups if g.preemptions} == vllm["preempted"]
    assert {g.request.id: g.hit_tokens for g in run.groups if g.request.id in vllm["hits"]} == vllm["hits"]
    assert run.num_steps == vllm["steps"]
    assert run.free_at_end == vllm["free"] * scenario["block_size"]
