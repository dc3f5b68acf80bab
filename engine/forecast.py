"""How well a calibrated simulation foretells a run that it never saw, and which part of it was wrong.

Three runs of one trace:

    simulated    the timing model says how long each step takes
    in step      the same schedule, really executed: the clock says how long each of its steps took
    free         really executed, and the clock drives the schedule: what a server would have done

From simulated to in step only the steps' durations change, from in step to free only who meets whom. So an
error is the product of two factors, one for the steps and one for the queue, and neither can hide the other.
"""

from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.measure import MeasuredRun
from sim.fit import error_of
from sim.outcomes import Outcomes
from sim.report import latency
from sim.run import Run

LATENCIES = ("ttft", "tpot", "e2e")
QUANTILES = ("p50", "p95")

Figures = dict[str, float | None]


def forecast(simulated: Run, in_step: MeasuredRun, free: MeasuredRun) -> dict[str, Any]:
    """One entry of the report's `forecast`. Errors are in percent of the free run's figures.

    Each figure has `simulated` and `measured` (seconds, or output tokens per second), `error_percent`, and
    its two parts `steps_percent` and `queue_percent`: (1 + error) = (1 + steps) x (1 + queue).
    """
    clocked = in_step.measured_seconds
    warped = _figures(*_warped(simulated, np.array(clocked)))
    ours, theirs = (_figures(run.outcomes, run.time_s) for run in (simulated, free))
    modelled = simulated.series.column("duration").tolist()
    return {
        "allocator": simulated.config.allocator,
        "steps": {
            "simulated": simulated.num_steps,
            "measured": free.num_steps,
            "error": asdict(error_of(modelled, clocked)),
        },
        "figures": {name: _entry(ours[name], warped[name], theirs[name]) for name in ours},
    }


def _entry(ours: float | None, warped: float | None, theirs: float | None) -> Figures:
    return {
        "simulated": ours,
        "measured": theirs,
        "error_percent": percent(ours, theirs),
        "steps_percent": percent(ours, warped),
        "queue_percent": percent(warped, theirs),
    }


def percent(one: float | None, other: float | None) -> float | None:
    """How much `one` is off, in percent of `other`; None where either is missing."""
    return 100.0 * (one / other - 1.0) if one is not None and other else None


def _figures(outcomes: Outcomes, time_s: float) -> Figures:
    latencies = latency(outcomes)
    named = {f"{name} {quantile}": latencies[name][quantile] for name in LATENCIES for quantile in QUANTILES}
    return {"throughput": sum(outcomes.emitted) / time_s if time_s else None, **named}


def _warped(simulated: Run, seconds: NDArray[np.float64]) -> tuple[Outcomes, float]:
    """What the simulated schedule would have come to if its steps had taken `seconds`, and its whole time.

    Time is bent: each step stretches to what the clock said, idle time stays as it is. A request that arrived
    in the middle of a step arrives in the middle of it still.
    """
    ends = simulated.series.column("time")
    starts = ends - simulated.series.column("duration")
    idle = np.concatenate([starts[:1], starts[1:] - ends[:-1]])
    new_starts = np.cumsum(idle) + np.concatenate([[0.0], np.cumsum(seconds)[:-1]])
    old = np.stack([starts, ends], axis=1).ravel()
    new = np.stack([new_starts, new_starts + seconds], axis=1).ravel()

    def bend(times: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.interp(times, old, new) + np.minimum(times - old[0], 0.0)

    was = simulated.outcomes
    arrivals = bend(np.array([request.arrival_s for request in was.requests]))
    requests = [
        replace(request, arrival_s=arrival)
        for request, arrival in zip(was.requests, arrivals.tolist(), strict=True)
    ]
    bent = replace(was, requests=requests, first_token_s=bend(was.first_token_s), finish_s=bend(was.finish_s))
    return bent, float(new[-1])
