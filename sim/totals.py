"""What a run adds up to, window by window, so that a trace of any length takes no more memory."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.alloc import Traffic
from sim.clock import to_s
from sim.config import Config
from sim.ledger import CLASSES
from sim.quantiles import Quantiles
from sim.report import LATENCIES, summary
from sim.request import Request
from sim.series import StepTable
from sim.work import Work

SUMMED = ("pool", *CLASSES, "batch", "blocks", "table_entries")


@dataclass(slots=True)
class TraceTotals:
    """What the report says of the trace: so far, while it is being read."""

    name: str
    num_requests: int = 0
    first_s: float = 0.0
    last_s: float = 0.0
    prompt_tokens: int = 0
    output_tokens: int = 0

    def add(self, requests: list[Request]) -> None:
        """The next requests, in order of arrival."""
        if not self.num_requests and requests:
            self.first_s = requests[0].arrival_s
        self.num_requests += len(requests)
        if requests:
            self.last_s = requests[-1].arrival_s
        self.prompt_tokens += sum(request.prompt for request in requests)
        self.output_tokens += sum(request.output for request in requests)

    def as_json(self) -> dict[str, Any]:
        """The report's `trace` entry."""
        return {
            "name": self.name,
            "requests": self.num_requests,
            "span_s": self.last_s - self.first_s,
            "prompt_tokens": self.prompt_tokens,
            "output_tokens": self.output_tokens,
            "skipped": None,  # not counted
        }


@dataclass(kw_only=True, slots=True)
class StreamedRun:
    """What came of a trace that was never in memory as a whole: what `sim.run.Run` reports, less its lists.

    Sums over steps are exact integers, so that windows do not change them.
    """

    trace: TraceTotals
    config: Config
    source: str = "simulated"
    clock: str = "modelled"
    meta: dict[str, Any] = field(default_factory=lambda: {"streamed": True})
    num_steps: int = 0
    busy_ps: int = 0
    idle_ps: int = 0
    time_s: float = 0.0
    max_batch: int = 0
    peak_slots: int = 0
    table_bytes: int = 0
    weighted: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SUMMED, 0))
    num_arrived: int = 0
    num_finished: int = 0
    num_rejected: int = 0
    num_preemptions: int = 0
    num_emitted: int = 0
    num_prompt_tokens: int = 0  # of requests that were admitted
    quantiles: dict[str, Quantiles] = field(default_factory=lambda: {name: Quantiles() for name in LATENCIES})
    work: Work = field(default_factory=Work)
    traffic: Traffic = field(default_factory=Traffic)
    free_at_end: int = 0
    is_stopped: bool = False

    def add_steps(self, series: StepTable, peak_slots: int) -> None:
        """A window of steps."""
        if not len(series):
            return
        self.num_steps += len(series)
        self.busy_ps += series.busy_ps
        self.max_batch = max(self.max_batch, int(series.column("batch").max()))
        self.peak_slots = max(self.peak_slots, peak_slots)
        for name in SUMMED:
            self.weighted[name] += series.weighted_sum(name)

    def add_latencies(self, latencies: dict[str, NDArray[np.float64]]) -> None:
        """Those of requests that finished."""
        for name, values in latencies.items():
            self.quantiles[name].add(values)

    def mean(self, name: str) -> float:
        """Mean of a column of the series over busy time."""
        return self.weighted[name] / self.busy_ps if self.busy_ps else 0.0

    @property
    def idle_s(self) -> float:
        """Seconds without work."""
        return to_s(self.idle_ps)

    @property
    def ledger(self) -> dict[str, float]:
        """Mean slots of each class over busy time, and `pool`."""
        return {name: self.mean(name) for name in ("pool", *CLASSES)}

    @property
    def counts(self) -> dict[str, int]:
        """How many requests came, until the run was stopped if it was, and what became of them."""
        return {
            "arrived": self.num_arrived,
            "finished": self.num_finished,
            "rejected": self.num_rejected,
            "unfinished": self.num_arrived - self.num_finished - self.num_rejected,
        }

    @property
    def prefix(self) -> dict[str, int]:
        """Prompt tokens; a run that leaps has no prefix cache to find them in."""
        return {"prompt_tokens": self.num_prompt_tokens, "hit_tokens": 0}

    @property
    def latency(self) -> dict[str, dict[str, float | None]]:
        """Mean and percentiles in seconds, over finished requests."""
        return {name: quantiles.summary() for name, quantiles in self.quantiles.items()}

    def report(self) -> dict[str, Any]:
        """This run's entry in the JSON report."""
        return {**summary(self), "per_request": None}
