"""What a reader hands back: requests in file order, what it skipped and why, and what a user should know."""

from collections import Counter
from dataclasses import dataclass, field

from sim.request import Request


@dataclass(slots=True)
class Reading:
    """Filled by one reader."""

    requests: list[Request] = field(default_factory=list[Request])
    skipped: Counter[str] = field(default_factory=Counter[str])
    notes: list[str] = field(default_factory=list[str])

    def add(self, arrival_s: float, prompt: int, output: int) -> None:
        """A request of a format that knows no more than this; it is called after its place in the file."""
        request_id = f"r{len(self.requests)}"
        self.requests.append(
            Request(id=request_id, arrival_s=arrival_s, prompt=prompt, output=output, max_tokens=output)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What a user may ask of a reader. None is "not asked"; each format says which of these it takes."""

    rate: float | None = None  # requests/s of generated arrivals
    spread_s: float | None = None  # seconds over which requests of one instant are spread
    seed: int = 0  # of generated arrivals
