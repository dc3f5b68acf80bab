"""A checkable statement, and the rules by which a verdict follows from what was computed.

No verdict is written down anywhere: a check computes, and one of the rules here compares.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

GUIDE = "technical guide"
TOPIC = "forum topic"


class Verdict(StrEnum):
    """What comes of a check."""

    HOLDS = "holds"
    CONDITIONAL = "conditional"
    WRONG = "wrong"
    NOT_CHECKABLE = "not-checkable"


@dataclass(frozen=True, slots=True)
class Finding:
    """What this project computes or measures, and what follows."""

    computed: str
    verdict: Verdict
    why: str


@dataclass(frozen=True)
class Claim:
    """`text` says in our words what `source` states; `claimed` is its figure; `command` prints ours."""

    id: str
    source: str
    text: str
    claimed: str
    check: Callable[[], Finding]
    shown_by: str | None = None  # a command of its own that prints the figure

    @property
    def command(self) -> str:
        """Prints the figure that the verdict rests on."""
        return self.shown_by or f"pagelab claims {self.id}"

    @cached_property
    def finding(self) -> Finding:
        """The check's result; computed once."""
        return self.check()

    def as_json(self) -> dict[str, str]:
        """The entry of `pagelab claims --json` (DESIGN section 8)."""
        finding = self.finding
        return {
            "id": self.id,
            "source": self.source,
            "text": self.text,
            "claimed": self.claimed,
            "computed": finding.computed,
            "verdict": str(finding.verdict),
            "why": finding.why,
            "command": self.command,
        }


def close(claimed: float, computed: float, shown: str, why: str, *, tolerance: float = 0.05) -> Finding:
    """Holds when the figures differ by at most `tolerance` of the claimed one."""
    is_close = abs(computed - claimed) <= tolerance * abs(claimed)
    return Finding(shown, Verdict.HOLDS if is_close else Verdict.WRONG, why)


def between(low: float, high: float, found: Mapping[str, float], unit: str, why: str) -> Finding:
    """Holds when all figures lie in [low, high], conditional when some do."""
    shown = ", ".join(f"{name} {value:,.4g}{unit}" for name, value in found.items())
    return where({name: low <= value <= high for name, value in found.items()}, shown, why)


def where(cases: Mapping[str, bool], shown: str, why: str) -> Finding:
    """Holds when it is true in all cases, wrong when in none; else the cases are the condition."""
    true = [name for name, is_true in cases.items() if is_true]
    false = [name for name in cases if name not in true]
    if not false:
        return Finding(shown, Verdict.HOLDS, why)
    if not true:
        return Finding(shown, Verdict.WRONG, why)
    condition = f"True for {', '.join(true)}; not for {', '.join(false)}."
    return Finding(shown, Verdict.CONDITIONAL, f"{condition} {why}")


def unknowable(why: str) -> Finding:
    """Nothing that a model of memory computes, or a machine at hand measures, bears on it."""
    return Finding("", Verdict.NOT_CHECKABLE, why)
