"""Small measured runs that several test files share."""

from functools import cache
from random import Random
from typing import Any

from engine import EngineFault, MeasuredRun, measure
from engine.agreement import agreement, disagreement
from sim import Config, Run, Trace, simulate
from tests.making import random_rows, requests

# 14 requests in 4 seconds, at 1 s a step: far more than the small pools below can hold at once.
CROWD = requests(*random_rows(Random(3), 14, longest=32, span_s=4))
ROOMY: dict[str, Any] = {"pool_tokens": 4096}
PRESSED: dict[str, Any] = {"pool_tokens": 144, "block_size": 8}


def tiny(**dials: Any) -> Config:
    """A config of the model `tiny` in float32, one modelled second a step, unless `dials` say otherwise."""
    return Config(**{"model": "tiny", "kv_dtype": "fp32", "max_len": 128, "timing": "unit", **dials})


@cache
def crowd(backend: str = "cpu", **dials: Any) -> MeasuredRun:
    """`CROWD`, executed on the modelled clock."""
    return measure(CROWD, tiny(**dials), backend=backend, device="cpu", clock="modelled")


def both(trace: Trace, config: Config) -> tuple[Run, MeasuredRun]:
    """The same trace simulated and measured."""
    return simulate(trace, config), measure(trace, config, backend="cpu", device="cpu", clock="modelled")


def assert_exact(trace: Trace, config: Config) -> tuple[Run, MeasuredRun]:
    """Simulates and measures `trace`; both must agree on every table, slot and class of every step."""
    simulated = simulate(trace, config)
    try:
        measured = measure(trace, config, backend="cpu", device="cpu", clock="modelled")
    except EngineFault as fault:
        raise AssertionError(disagreement(simulated, fault)["first_difference"]) from fault
    verdict = agreement(simulated, measured)
    assert verdict["first_difference"] is None, (config, verdict["first_difference"])
    assert verdict["block_tables_identical"]
    assert verdict["ledger_max_abs_diff_slots"] == 0
    assert verdict["steps_compared"] == simulated.num_steps
    return simulated, measured
