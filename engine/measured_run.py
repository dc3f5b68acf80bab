"""A run that was really executed: what was seen in memory, and what stopped it if something did."""

from dataclasses import dataclass
from typing import Any

from engine.executor import TorchExecutor
from engine.probe import Observation
from sim.events import EventLog, Kind
from sim.run import Run


@dataclass(kw_only=True)
class MeasuredRun(Run):
    """A `Run` whose ledger was read from memory at every step.

    `meta["engine"]` holds the engine's facts, `meta["memory"]` the bytes before the model and the
    pool were made, before the first step, and after the last.
    """

    tokens: dict[str, list[int]]  # what each sequence emitted, by its name
    observations: list[Observation]  # one a step
    min_margin: float  # smallest lead of an emitted token's logit over the runner-up's

    def report(self) -> dict[str, Any]:
        """As of any run; tensors of each request's own are named by their policy."""
        entry = super().report()
        native = self.meta.get("memory", {}).get("native")
        return {**entry, "allocator": native["policy"]} if native else entry

    @property
    def measured_seconds(self) -> list[float]:
        """What the clock said of each step, whichever clock drove the schedule."""
        return [observation.seconds for observation in self.observations]


class EngineFault(Exception):
    """The engine stopped in the middle of a run: a fault of ours, not of the input.

    `observations` are those of the steps before; `step` is the one that failed.
    """

    def __init__(self, step: int, observations: list[Observation], cause: Exception) -> None:
        super().__init__(f"the engine stopped in step {step}: {type(cause).__name__}: {cause}")
        self.step = step
        self.observations = observations


class MeasuredLog(EventLog):
    """An event log whose `step` events carry the measured ledger."""

    executor: TorchExecutor

    def emit(self, kind: Kind, request: str | None, why: str, **changes: Any) -> None:
        """Appends the event, with the measured ledger if it closes a step."""
        if kind is Kind.STEP:
            self.executor.close()
            ledger = self.executor.last_ledger
            changes["ledger"] = {name: getattr(ledger, name) for name in ledger.__slots__}
        super().emit(kind, request, why, **changes)
