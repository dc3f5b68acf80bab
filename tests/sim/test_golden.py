"""vLLM 0.32's own scheduler and block pool, on 170 random traces: the same steps, finishes and preemptions.

How `data/vllm_golden.jsonl.gz` was made: shared/notes/vllm_oracle.md. Its scenarios with prefix caching are
in test_golden_prefix.py.
"""

import gzip
import json
from pathlib import Path

import pytest

from sim import Config, Request, Trace, simulate

GOLDEN = Path(__file__).parent / "data" / "vllm_golden.jsonl.gz"


def scenarios() -> list[dict]:
    with gzip.open(GOLDEN, "rt") as lines:
        return [case for case in map(json.loads, lines) if not case["scenario"]["prefix"]]


def test_there_are_170_scenarios_with_598_preemptions_among_them():
    cases = scenarios()
    assert len(cases) == 170
    assert sum(sum(case["vllm"]["preempted"].values()) for case in cases) == 598


@pytest.mark.parametrize("case", scenarios(), ids=lambda case: str(case["scenario"]["seed"]))
def test_every_request_finishes_at_the_step_at_which_vllm_finishes_it(case):
    scenario, vllm = case["scenario"], case["vllm"]
    trace = Trace(
        "golden",
        tuple(
            Request(id=id, arrival_s=float(arrival), prompt=prompt, output=output, max_tokens=output)
            for id, prompt, output, arrival in scenario["rows"]
        ),
    )
    config = Config(
        pool_blocks=scenario["blocks"],
        block_size=scenario["block_size"],
        max_seqs=scenario["max_seqs"],
        max_batch_tokens=scenario["budget"],
        chunked_prefill=True,
        timing="unit",
    )
    run = simulate(trace, config, check=True)
    assert {group.request.id: group.finish_s for group in run.groups} == vllm["finish"]
    assert {g.request.id: g.preemptions for g in run.groups if g.preemptions} == vllm["preempted"]
    assert run.num_steps == vllm["steps"]
    assert run.free_at_end == vllm["free"] * scenario["block_size"]
