"""The paper's servers, and the loads that its figures put on them.

A `Config` by itself is that of most figures: OPT-13B on an A100-40GB, 15,728 slots. `LARGER` are the others.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

from app.paper.published import TABLE_1
from sim import Config, Run, Trace, simulate
from sim.ledger import CLASSES
from sim.models import get_model
from sim.trace import LENGTHS, PAPER_FILTER, generate
from sim.trace.arrivals import AllAtOnce, Poisson

SEED = 1
TARGET_S = 0.5  # normalized latency, seconds a token, at which the paper compares rates
NUM_SATURATED = {"sharegpt": 1_500, "alpaca": 6_000}
SPAN_S = {"sharegpt": 900, "alpaca": 300}  # of a trace whose rate is searched; the paper's last an hour
PRECISION = 0.02
GIB = 2**30


def larger(name: str, hardware: str, devices: int) -> dict[str, Any]:
    """The dials of a server in table 1, whose pool is what it prints as memory for the KV cache."""
    model = name.lower()
    token = get_model(model).kv_bytes_per_token("fp16")
    slots = TABLE_1[name]["cache"] * GIB // token // 16 * 16
    return {"model": model, "hardware": hardware, "tensor_parallel": devices, "pool_tokens": slots}


LARGER = {"OPT-66B": larger("OPT-66B", "a100-40gb", 4), "OPT-175B": larger("OPT-175B", "a100-80gb", 8)}


def waiting_at_start(lengths: str, num_requests: int) -> Trace:
    """Every request is there from the start."""
    return generate(
        name=lengths,
        seed=SEED,
        num_requests=num_requests,
        keep=PAPER_FILTER,
        arrivals=AllAtOnce(),
        lengths=LENGTHS[lengths],
    )


@cache
def saturated(lengths: str, allocator: str) -> Run:
    """All that memory holds, at any time; a step lasts a second."""
    trace = waiting_at_start(lengths, NUM_SATURATED[lengths])
    return simulate(trace, Config(allocator=allocator, timing="unit", seed=SEED), record=False)


def while_waiting(run: Run) -> tuple[float, dict[str, float]]:
    """Mean batch, and mean share of the pool by class in %, over the steps in which requests wait."""
    waits = run.series.column("waiting") > 0
    shares = {
        name: 100 * float(run.series.column(name)[waits].mean()) / run.config.num_slots for name in CLASSES
    }
    return float(run.series.column("batch")[waits].mean()), shares


def loaded(lengths: str, rate: float, num_requests: int) -> Trace:
    """Poisson arrivals, `rate` requests a second."""
    return generate(
        name=lengths,
        seed=SEED,
        num_requests=num_requests,
        keep=PAPER_FILTER,
        arrivals=Poisson(rate),
        lengths=LENGTHS[lengths],
    )


def normalized_latency(trace: Trace, **dials: Any) -> float:
    """Mean of end-to-end latency over output length, seconds a token (section 6.1)."""
    run = simulate(trace, Config(seed=SEED, **dials), record=False)
    return run.report()["latency"]["normalized"]["mean"]


def highest_rate(trace_at: Callable[[float], Trace], low: float, **dials: Any) -> float:
    """The rate at which the normalized latency passes `TARGET_S`, by doubling and bisection from `low` on."""

    def keeps_up(rate: float) -> bool:
        return normalized_latency(trace_at(rate), **dials) <= TARGET_S

    while not keeps_up(low):
        low /= 2
    high = 2 * low
    while keeps_up(high):
        low, high = high, 2 * high
    while high / low > 1 + PRECISION:
        middle = (low * high) ** 0.5
        if keeps_up(middle):
            low = middle
        else:
            high = middle
    return (low * high) ** 0.5


def with_width(trace: Trace, kind: str, width: int) -> Trace:
    """The same requests, each with so many samples (`n`) or beams (`beam`)."""
    widths = {"n": width} if kind == "n" else {"beam": width}
    return replace(trace, requests=tuple(replace(request, **widths) for request in trace.requests))
