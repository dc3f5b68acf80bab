"""A finished run: its requests, its ledger, its events, and the state at any step."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from sim.alloc import Traffic
from sim.config import Config
from sim.events import Event, EventLog, Sink
from sim.ledger import CLASSES
from sim.outcomes import Outcomes
from sim.replay import Replay, State
from sim.report import count_requests, latency, per_request, prefix, report_run
from sim.request import SequenceGroup
from sim.series import StepTable
from sim.trace import Trace
from sim.work import Work


@dataclass(kw_only=True)
class Run:
    """What came of serving `trace` under `config`.

    `source` says who ran it (`simulated` or `measured`), `clock` where its times come from (`modelled` or
    `measured`). `outcomes` says what became of each request; `groups` are the scheduler's own, none after
    a leap. `meta` holds what an engine says of itself.
    """

    trace: Trace
    config: Config
    source: str
    clock: str
    outcomes: Outcomes
    series: StepTable
    log: Sink
    time_s: float
    idle_s: float
    num_preemptions: int
    work: Work
    traffic: Traffic
    peak_slots: int
    table_bytes: int
    free_at_end: int
    is_stopped: bool = False  # before all requests had ended, because somebody asked for it
    groups: list[SequenceGroup] = field(default_factory=list[SequenceGroup])
    meta: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def num_steps(self) -> int:
        return len(self.series)

    @property
    def requests(self) -> list[dict[str, Any]]:
        """One dict for each request, in order of arrival: the report's `per_request`."""
        return per_request(self.outcomes)

    @property
    def ledger(self) -> dict[str, float]:
        """Mean slots of each class over busy time, and `pool`."""
        return {name: self.series.mean(name) for name in ("pool", *CLASSES)}

    def mean(self, name: str) -> float:
        """Mean of a column of the series over busy time."""
        return self.series.mean(name)

    @property
    def max_batch(self) -> int:
        """The most sequences in one step."""
        return int(self.series.column("batch").max(initial=0))

    @property
    def counts(self) -> dict[str, int]:
        """How many requests arrived by the end of the run, and what became of them."""
        return count_requests(self.outcomes, self.time_s if self.is_stopped else None)

    @property
    def prefix(self) -> dict[str, int]:
        """Prompt tokens, and those of them found in the prefix cache."""
        return prefix(self.outcomes)

    @property
    def num_emitted(self) -> int:
        """Tokens out."""
        return sum(self.outcomes.emitted)

    @property
    def latency(self) -> dict[str, dict[str, float | None]]:
        """Mean and percentiles in seconds, over finished requests."""
        return latency(self.outcomes)

    @property
    def events(self) -> list[Event]:
        """The whole log, in order. Empty when the run was made with `record=False`."""
        return self.log.events if isinstance(self.log, EventLog) else []

    @cached_property
    def replay(self) -> Replay:
        """The log as a picture that can be moved back and forth."""
        return Replay(self.events)

    def at(self, step: int) -> State:
        """The state after the writes of `step` (from 1) and before finished requests leave."""
        return self.replay.at(step)

    def report(self) -> dict[str, Any]:
        """This run's entry in the JSON report (DESIGN section 8)."""
        return report_run(self)
