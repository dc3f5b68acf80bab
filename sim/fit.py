"""From timed steps to a timing model: non-negative least squares, with its error by cross-validation.

The costs are those of `AdditiveTiming`. None may be negative, so that no step takes less for doing more, and
relative errors are squared, so that short steps count as much as long ones. The curve over tokens is a sum of
ramps, each flat before one point and after the next: any rising line can come of it.

Source: Lawson and Hanson, "Solving Least Squares Problems", 1974 (`scipy.optimize.nnls`).
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.additive_timing import AdditiveTiming
from sim.closed_timing import Totals

LEAST_STEP_S = 1e-9  # a step must take some time, whatever the fit says
FITTED = ("step", "sequence", "context_token", "attention_pair", "swapped_block", "copied_token")


@dataclass(frozen=True, slots=True)
class Step:
    """One step that was timed, as part of an experiment."""

    experiment: str
    totals: Totals
    seconds: float


@dataclass(frozen=True, slots=True)
class Error:
    """How far a fit is from steps that it never saw, in percent of what these took."""

    median_percent: float  # of absolute errors
    p95_percent: float
    total_percent: float  # of the sum over all steps: errors of both signs cancel
    num_steps: int


def fit(steps: Sequence[Step]) -> AdditiveTiming:
    """The timing model that comes nearest to `steps`."""
    # Imported here, since it takes a while and only a calibration needs it.
    solvers: Any = import_module("scipy.optimize")
    knots = _knots(steps)
    seconds = np.array([step.seconds for step in steps])
    features = _features(steps, knots)
    costs: Any = solvers.nnls(features / seconds[:, None], np.ones(len(steps)))[0]
    per_unit: dict[str, Any] = dict(zip(FITTED, costs[: len(FITTED)].tolist(), strict=True))
    per_unit["step"] = max(per_unit["step"], LEAST_STEP_S)
    heights = [0.0, *np.cumsum(costs[len(FITTED) :]).tolist()]
    return AdditiveTiming(**per_unit, curve=tuple(zip(knots, heights, strict=True)))


def cross_validate(steps: Sequence[Step], folds: int = 5) -> Error:
    """The error on steps of experiments that the fit did not see: every experiment is left out once."""
    names = list(dict.fromkeys(step.experiment for step in steps))
    predicted: list[float] = []
    measured: list[float] = []
    for fold in range(folds):
        left_out = set(names[fold::folds])
        timing = fit([step for step in steps if step.experiment not in left_out])
        for step in steps:
            if step.experiment in left_out:
                predicted.append(timing.cost(*step.totals))
                measured.append(step.seconds)
    return error_of(predicted, measured)


def error_of(predicted: Sequence[float], measured: Sequence[float]) -> Error:
    """How far `predicted` seconds are from `measured` ones, step by step."""
    ours, clock = np.array(predicted), np.array(measured)
    off = 100.0 * np.abs(ours / clock - 1.0)
    return Error(
        median_percent=float(np.median(off)),
        p95_percent=float(np.percentile(off, 95)),
        total_percent=float(100.0 * (ours.sum() / clock.sum() - 1.0)),
        num_steps=len(off),
    )


def as_document(timing: AdditiveTiming, error: Error, **more: Any) -> dict[str, Any]:
    """What `--timing FILE` takes, with how it came about."""
    return {
        "seconds": {name: getattr(timing, name) for name in FITTED},
        "curve": [list(point) for point in timing.curve],
        "cross_validation": asdict(error),
        **more,
    }


def _knots(steps: Sequence[Step]) -> list[float]:
    """Where the curve may bend: numbers of tokens that were timed, a factor of 1.5 apart or more."""
    seen = sorted({step.totals.tokens for step in steps})
    knots = [seen[0]]
    for tokens in seen:
        if tokens >= 1.5 * knots[-1]:
            knots.append(tokens)
    if len(knots) > 1:
        knots[-1] = seen[-1]
    return [float(knot) for knot in knots]


def _features(steps: Sequence[Step], knots: list[float]) -> NDArray[np.float64]:
    """[steps, costs and ramps]: what each cost is multiplied with, in the order of `FITTED`."""
    tokens, sequences, context, pairs, swapped, copied = np.array(
        [step.totals for step in steps], dtype=np.float64
    ).T
    before, after = np.array(knots[:-1]), np.array(knots[1:])
    ramps = np.clip((tokens[:, None] - before) / (after - before), 0.0, 1.0)
    linear = np.stack([np.ones_like(tokens), sequences, context, pairs, swapped, copied], axis=1)
    return np.concatenate([linear, ramps], axis=1)
