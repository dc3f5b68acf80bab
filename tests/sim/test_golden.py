"""vLLM 0.32's own scheduler and block pool on 170 random traces: the same steps, finishes, preemptions."""

import pytest

from sim import simulate
from tests.sim.vllm import assert_same_schedule, config_of, scenarios, seed_of, trace_of

CASES = scenarios(prefix=False)


def test_there_are_170_scenarios_with_598_preemptions_among_them():
    assert len(CASES) == 170
    assert sum(sum(case["vllm"]["preempted"].values()) for case in CASES) == 598


@pytest.mark.parametrize("case", CASES, ids=seed_of)
def test_every_request_finishes_at_the_step_at_which_vllm_finishes_it(case):
    scenario = case["scenario"]
    assert_same_schedule(simulate(trace_of(scenario), config_of(scenario), check=True), case)
