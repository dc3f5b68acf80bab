"""One point of a figure, the paper's and ours."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Point:
    """`paper` may be a range that the text gives; the deviation is then from its nearer end, 0 inside."""

    figure: str
    point: str
    unit: str
    paper: float | tuple[float, float]
    ours: float

    @property
    def deviation_percent(self) -> float | None:
        """Of the paper's value, None where that is 0."""
        low, high = self.paper if isinstance(self.paper, tuple) else (self.paper, self.paper)
        nearest = min(max(self.ours, low), high)
        return 100 * (self.ours - nearest) / nearest if nearest else None

    def as_json(self) -> dict[str, Any]:
        """The entry of `pagelab paper --json` (DESIGN section 8)."""
        deviation = self.deviation_percent
        return {
            "figure": self.figure,
            "point": self.point,
            "unit": self.unit,
            "paper": self.paper,
            "ours": round(self.ours, 4),
            "deviation_percent": None if deviation is None else round(deviation, 1),
        }
