"""A run as it was recorded: what the player and the quiz know of it, be it new or from a file."""

from dataclasses import dataclass, field
from functools import cached_property
from operator import mul
from typing import Any

from sim import Request, Run
from sim.events import Event, Kind
from sim.horizon import Horizon, KeepAll
from sim.ledger import waste_percent

UNKNOWN = "recorded"  # who made a log that does not say so
CHAIN = "chain "  # so begins the name of what a stream has for a request


@dataclass(frozen=True, kw_only=True)
class Recording:
    """The log, and what a log does not tell. All numbers are folded from the log.

    `cell_slots` is the size of a block or page, 0 where sequences hold ranges; `settings` are the dials by
    name, as far as they are known; `horizon` says which tokens are read no more.
    """

    trace: str
    requests: tuple[Request, ...]
    events: list[Event]
    allocator: str
    cell_slots: int
    source: str
    clock: str
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    horizon: Horizon = field(default_factory=KeepAll)

    @cached_property
    def steps(self) -> list[dict[str, Any]]:
        """What each step's event says: duration, batch, tokens, queues, ledger."""
        return [event.changes for event in self.events if event.kind is Kind.STEP]

    @property
    def pool(self) -> int:
        """Slots."""
        return self.steps[0]["ledger"]["pool"]

    @property
    def has_pages(self) -> bool:
        """Whether what a table's last entry holds in vain is there because pages round up."""
        return bool(self.cell_slots) and any(step["ledger"]["rounding"] for step in self.steps)

    @property
    def time_s(self) -> float:
        """When the last request had left."""
        return self.events[-1].time

    def mean(self, name: str) -> float:
        """Mean slots of a ledger class over busy time."""
        return self._mean([step["ledger"][name] for step in self.steps])

    @property
    def batch_mean(self) -> float:
        """Mean number of sequences that ran in a step, over busy time."""
        return self._mean([step["batch"] for step in self.steps])

    @property
    def waste_percent(self) -> float:
        """Of what somebody holds. Cached blocks are there for whoever needs them: they count as not taken."""
        return waste_percent(self.mean("pool"), self.mean("live"), self.mean("free") + self.mean("cached"))

    @property
    def peak_blocks(self) -> int:
        """The most blocks that held something at once."""
        return max(self.pool - step["ledger"]["free"] for step in self.steps) // self.cell_slots

    @cached_property
    def is_stream(self) -> bool:
        """Whether only what is cached is known: chains of blocks stand for requests."""
        return self.cell_slots > 0 and all(one.id.startswith(CHAIN) for one in self.requests)

    def described(self, name: str) -> dict[str, Any]:
        """What the player is told of the run as a whole."""
        size, placement = self.cell_slots, self.settings.get("placement")
        unit = "pages" if self.has_pages or self.allocator == "virtual" else "blocks"
        how = f"{unit} of {size} tokens, on demand"
        if not size:
            how = "one range a request" + (f", {placement} placement" if placement else "")
        is_unit = self.clock == "modelled" and self.settings.get("timing") == "unit"
        return {
            "name": name,
            "about": how,
            "times": "a step is 1 s" if is_unit else f"times {self.clock}",
            "source": self.source,
            "clock": self.clock,
            "cell_slots": size,
            "pool": self.pool,
            "summary": {
                "waste_percent": None if self.is_stream else round(self.waste_percent, 3),
                "batch_mean": None if self.is_stream else round(self.batch_mean, 3),
                "time_s": round(self.time_s, 6),
                "preemptions": self.count(Kind.PREEMPT),
                "rejected": self.count(Kind.REJECT),
            },
        }

    def count(self, kind: Kind) -> int:
        """Events of a kind."""
        return sum(event.kind is kind for event in self.events)

    @property
    def name(self) -> str:
        """How a sentence calls it."""
        is_contiguous = not self.cell_slots and self.allocator != UNKNOWN
        return f"contiguous ({self.allocator})" if is_contiguous else self.allocator

    @cached_property
    def _durations(self) -> list[float]:
        return [step["duration"] for step in self.steps]

    def _mean(self, values: list[int]) -> float:
        """Of one value a step, weighted by how long it took."""
        weight = sum(self._durations)
        return sum(map(mul, values, self._durations)) / weight if weight else 0.0


def recording_of(run: Run) -> Recording:
    """A run that has just ended, with its log."""
    return Recording(
        trace=run.trace.name,
        requests=run.trace.requests,
        events=run.events,
        allocator=run.config.allocator,
        cell_slots=run.config.slots_per_block or 0,
        source=run.source,
        clock=run.clock,
        settings=run.config.as_json(),
        horizon=run.config.horizon,
    )


def names_of(recordings: list[Recording]) -> list[str]:
    """A name for each. Where two are called alike, with who made them, or the dials in which they differ."""
    names = [one.name for one in recordings]
    if len(set(names)) == len(names):
        return names
    if len({one.source for one in recordings}) == len(recordings):
        return [f"{name}, {one.source}" for name, one in zip(names, recordings, strict=True)]
    dials = [
        dial
        for dial, value in recordings[0].settings.items()
        if any(other.settings.get(dial) != value for other in recordings)
    ]
    return [
        ", ".join([name, *(_said(dial.replace("_", " "), one.settings.get(dial)) for dial in dials)])
        for name, one in zip(names, recordings, strict=True)
    ]


def _said(dial: str, value: object) -> str:
    """`window 64`, and `no window` where it is not set."""
    return f"no {dial}" if value is None else f"{dial} {value}"
