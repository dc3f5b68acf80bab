"""vLLM 0.32's own block pool with prefix caching, on 99 random traces: the same hits, steps and preemptions.

Resumed requests hit their own old blocks there, and requests hit what an earlier one of the same step fills.
"""

import pytest

from sim import simulate
from tests.sim.vllm import assert_same_schedule, config_of, scenarios, seed_of, trace_of

CASES = scenarios(prefix=True)


def test_there_are_99_scenarios_with_241_preemptions_and_3784_tokens_hit():
    assert len(CASES) == 99
    assert sum(sum(case["vllm"]["preempted"].values()) for case in CASES) == 241
    assert sum(sum(case["vllm"]["hits"].values()) for case in CASES) == 3784


@pytest.mark.parametrize("prefix_cache", ["hash", "radix"])
@pytest.mark.parametrize("case", CASES, ids=seed_of)
def test_hits_steps_finishes_and_preemptions_are_vllms(case, prefix_cache):
    scenario, hits = case["scenario"], case["vllm"]["hits"]
    run = simulate(trace_of(scenario), config_of(scenario, prefix_cache=prefix_cache), check=True)
    assert_same_schedule(run, case)
    assert {entry["id"]: entry["hit_tokens"] for entry in run.requests if entry["id"] in hits} == hits
