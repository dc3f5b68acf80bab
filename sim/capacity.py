"""How many requests a second a server can take before it misses its target, by bisection.

A trace is played faster and faster (`Trace.scale_rate`): the same requests, closer together. The highest rate
that meets the target lies between one that does and one that does not, and these are brought together until
they are `PRECISION` apart. Latency grows with the rate, but a trace is finite and uneven, so that a target
may be missed at one rate and met again a little above: then what is found is one of those edges.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sim.config import Config
from sim.errors import InputError
from sim.report import LATENCIES, report_run
from sim.serve import IsOver, simulate
from sim.trace import Trace

PRECISION = 0.01  # of the rate
AT_ONCE, ONE_BY_ONE = 2.0**32, 2.0**-16  # scales at which all requests meet, and none do
POINTS = ("mean", "p50", "p95", "p99")


@dataclass(frozen=True, slots=True)
class Target:
    """At most so many seconds of one latency at one percentile, such as TTFT at P95 within 0.5 s."""

    latency: str
    point: str
    seconds: float

    @classmethod
    def parse(cls, text: str) -> "Target":
        """From `ttft-p95=0.5`. Raises InputError for anything else."""
        match = re.fullmatch(r"(\w+)-(\w+)=([0-9.]+(?:e-?[0-9]+)?)", text.strip().lower())
        if not match or match[1] not in LATENCIES or match[2] not in POINTS or not _is_positive(match[3]):
            raise InputError(
                f"target {text!r}: must be such as ttft-p95=0.5, in seconds ({', '.join(LATENCIES)} at "
                f"{', '.join(POINTS)})"
            )
        return cls(match[1], match[2], float(match[3]))

    def __str__(self) -> str:
        return f"{self.latency}-{self.point}={self.seconds:g}"

    def value(self, report: dict[str, Any]) -> float | None:
        """What the report says of it; None where no request has finished."""
        return report["latency"][self.latency][self.point]

    def is_met(self, report: dict[str, Any]) -> bool:
        """Whether it holds, for at least one request."""
        value = self.value(report)
        return value is not None and value <= self.seconds


def _is_positive(text: str) -> bool:
    return text.count(".") <= 1 and text != "." and 0 < float(text) < float("inf")  # 1e999 is infinite


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One rate tried: what it came to."""

    rate: float  # requests/s
    is_met: bool
    report: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """The highest rate found, and every rate tried, lowest first.

    `best` is None where the target is missed at any rate; `is_bounded` is False where it is still met when
    all requests arrive practically at once, so that the trace is too short to say. Where the search
    `is_stopped`, `best` is the best of what had been tried, and the capacity may be higher.
    """

    config: Config
    best: Point | None
    is_bounded: bool
    points: tuple[Point, ...]
    is_stopped: bool = False


class _Stopped(Exception):
    """Somebody ended the search."""


def usual_rate(trace: Trace) -> float:
    """Requests per second of the trace as it is. Raises InputError where that means nothing."""
    if len(trace) < 2 or not trace.span_s:
        raise InputError(f"{trace.name}: all requests arrive at once, so it has no rate; give one that has")
    return (len(trace) - 1) / trace.span_s


def find_capacity(
    trace: Trace,
    config: Config,
    targets: list[Target],
    on_point: Callable[[Point], None] | None = None,
    is_over: IsOver | None = None,
) -> Capacity:
    """The highest rate of `trace` at which `config` meets all `targets`.

    `on_point` is told of each try, and `is_over` asked as often as a run asks it whether to end the search.
    """
    rate = usual_rate(trace)
    tried: dict[float, Point] = {}

    def is_met(scale: float) -> bool:
        run = simulate(trace.scale_rate(scale), config, record=False, is_over=is_over)
        if is_over and is_over():
            raise _Stopped  # the run may have been cut short, and says nothing then
        report = report_run(run, with_requests=False)
        point = Point(
            rate=rate * scale, is_met=all(target.is_met(report) for target in targets), report=report
        )
        tried[scale] = point
        if on_point:
            on_point(point)
        return point.is_met

    is_stopped = False
    try:
        low, high = bracket(is_met)
        while low is not None and high is not None and high > low * (1 + PRECISION):
            middle = (low * high) ** 0.5
            low, high = (middle, high) if is_met(middle) else (low, middle)
    except _Stopped:
        is_stopped = True
        scales = [scale for scale in tried if ONE_BY_ONE < scale < AT_ONCE]
        low = max((scale for scale in scales if tried[scale].is_met), default=None)
        high = min((scale for scale in scales if not tried[scale].is_met), default=None)
    return Capacity(
        config=config,
        best=None if low is None else tried[low],
        is_bounded=high is not None,
        points=tuple(tried[scale] for scale in sorted(tried) if ONE_BY_ONE < scale < AT_ONCE),
        is_stopped=is_stopped,
    )


def bracket(is_met: Callable[[float], bool]) -> tuple[float | None, float | None]:
    """A scale at which the target is met and twice that, where it is not; None for what there is not."""
    scale = 1.0
    if is_met(scale):
        if is_met(AT_ONCE):
            return scale, None
        while is_met(2 * scale):
            scale *= 2
        return scale, 2 * scale
    if not is_met(ONE_BY_ONE):
        return None, scale
    while not is_met(scale / 2):
        scale /= 2
    return scale / 2, scale


def efficient(points: list[tuple[float, float, float]]) -> list[bool]:
    """Of (memory, rate, latency): whether no other has as little memory, as high a rate and as low a latency,
    and one of them better (the Pareto front)."""
    return [
        not any(
            other[0] <= one[0] and other[1] >= one[1] and other[2] <= one[2] and other != one
            for other in points
        )
        for one in points
    ]
