"""vLLM 0.32's own scheduler and block pool on 269 random traces: the same steps, preemptions and hits.

How `data/vllm_golden.jsonl.gz` was made: shared/notes/vllm_oracle.md. In 99 scenarios prefix caching is on;
their rows hold the prompt's tokens in place of their number.
"""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from sim import Config, Request, Trace, simulate

GOLDEN = Path(__file__).parent / "data" / "vllm_golden.jsonl.gz"


def scenarios() -> list[dict]:
    with gzip.open(GOLDEN, "rt") as lines:
        return [json.loads(line) for line in lines]


def name(case: dict) -> str:
    scenario = case["scenario"]
    return f"{scenario['seed']}{'-cached' if scenario['prefix'] else ''}"


def request(id: str, prompt: int | list[int], output: int, arrival: float) -> Request:
    content: dict[str, Any] = {"prompt": prompt}
    if isinstance(prompt, list):
        content = {"prompt": len(prompt), "tokens": tuple(prompt)}
    return Request(id=id, arrival_s=float(arrival), output=output, max_tokens=output, **content)


def test_there_are_170_scenarios_with_598_preemptions_and_99_with_prefix_caching_and_hits_among_them():
    cases = scenarios()
    plain, cached = ([case for case in cases if case["scenario"]["prefix"] == on] for on in (False, True))
    assert (len(plain), len(cached)) == (170, 99)
    assert sum(sum(case["vllm"]["preempted"].values()) for case in plain) == 598
    assert sum(sum(case["vllm"]["preempted"].values()) for case in cached) == 241
    assert sum(sum(case["vllm"]["hits"].values()) for case in cached) == 3784


@pytest.mark.parametrize("case", scenarios(), ids=name)
def test_every_request_finishes_at_the_step_at_which_vllm_finishes_it(case):
    scenario, vllm = case["scenario"], case["vllm"]
    trace = Trace("golden", tuple(request(*row) for row in scenario["rows"]))
    config = Config(
        pool_blocks=scenario["blocks"],
        block_size=scenario["block_size"],
        max_seqs=scenario["max_seqs"],
        max_batch_tokens=scenario["budget"],
        chunked_prefill=True,
        prefix_cache="hash" if scenario["prefix"] else "off",
        timing="unit",
    )
    run = simulate(trace, config, check=True)
    assert {group.request.id: group.finish_s for group in run.groups} == vllm["finish"]
    preempted = {group.request.id: group.preemptions for group in run.groups if group.preemptions}
    assert preempted == vllm["preempted"]
    assert run.num_steps == vllm["steps"]
    assert run.free_at_end == vllm["free"] * scenario["block_size"]
    if scenario["prefix"]:
        assert {group.request.id: group.hit_tokens for group in run.groups} == vllm["hits"]
