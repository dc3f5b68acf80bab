"""Pictures of memory for the lessons."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np

from app.colours import COLOURS
from sim import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = ("live", "reserved", "internal", "rounding", "free")
DPI = 80


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure as a notebook shows it, with a sentence for those who do not see it.

    It is drawn when somebody looks. Only then is matplotlib needed, which a browser may not have.
    """

    draw: Callable[[], Figure]
    text: str

    @classmethod
    def of(cls, figure: Figure, text: str) -> Picture:
        """A figure that is drawn already."""
        return cls(lambda: figure, text)

    def __repr__(self) -> str:
        return self.text

    def _repr_png_(self) -> bytes:
        out = BytesIO()
        self.draw().savefig(out, format="png", dpi=DPI, metadata={"Software": None, "Title": self.text})
        return out.getvalue()


def sheet(height: float) -> Figure:
    """An empty figure, 8 inches wide and `height` high."""
    from matplotlib.figure import Figure

    return Figure(figsize=(8, height), layout="constrained")


def strip(rows: Mapping[str, Sequence[int]], kinds: Sequence[str] = KINDS) -> Picture:
    """One bar a row, cut into so many slots of each kind: `{"max": (7, 3, 20)}`; no sequence, no bar."""
    bars = {name: counts if isinstance(counts, Sequence) else () for name, counts in rows.items()}

    def draw() -> Figure:
        figure = sheet(0.7 + 0.45 * len(bars))
        axes: Any = figure.subplots()
        lengths = [len(counts) for counts in bars.values()]
        for place, counts in enumerate(bars.values()):
            left = 0
            for kind, count in zip(kinds, counts, strict=False):
                label = kind if place == lengths.index(max(lengths)) else None  # one row names the colours
                axes.barh(place, count, left=left, color=COLOURS[kind], edgecolor="white", label=label)
                if count:
                    axes.text(left + count / 2, place, str(count), ha="center", va="center")
                left += count
        axes.set_yticks(range(len(bars)), list(bars))
        axes.invert_yaxis()
        axes.set_xlabel("slots")
        if any(bars.values()):  # an answer may be empty
            figure.legend(loc="outside upper center", ncols=len(kinds), frameon=False)
        return figure

    named = (
        f"{name}: " + ", ".join(f"{n} {kind}" for kind, n in zip(kinds, counts, strict=False))
        for name, counts in bars.items()
    )
    return Picture(draw, "; ".join(named))


def ledgers(runs: Sequence[Run]) -> Picture:
    """Mean slots of each class, one bar a run."""
    reports = [run.report() for run in runs]

    def draw() -> Figure:
        from app.plots import ledger_bars

        return ledger_bars({"runs": reports})

    text = ", ".join(f"{report['allocator']} wastes {report['waste_percent']:.1f} %" for report in reports)
    return Picture(draw, text)


def memory_map(run: Run, step: int, width: int = 64) -> Picture:
    """Who holds each slot of the pool after a step, `width` slots a row, a colour for each sequence."""
    state, num_slots = run.at(step), run.config.num_slots
    size = run.config.slots_per_block or 1
    num_rows = -(-num_slots // width)
    owner = np.full(num_rows * width, np.nan)
    alpha = np.full(num_rows * width, 0.35)
    for index, (name, table) in enumerate(state.block_tables.items()):
        if isinstance(table, list):
            held = (np.asarray(table)[:, None] * size + np.arange(size)).ravel()
        else:
            held = np.arange(table.start, table.start + table.length)
        owner[held] = index % 10
        alpha[state.slots(name, size)] = 1.0

    names = ", ".join(state.block_tables)
    shape = (num_rows, width)

    def draw() -> Figure:
        figure = sheet(0.8 + 0.2 * num_rows)
        axes: Any = figure.subplots()
        axes.imshow(
            owner.reshape(shape), alpha=alpha.reshape(shape), cmap="tab10", vmin=-0.5, vmax=9.5,
            aspect="auto", interpolation="nearest",
        )  # fmt: skip
        axes.set_title(f"step {step}: {names}\npale: held and empty; white: free", fontsize=9)
        axes.set_xlabel(f"{width} slots a row")
        axes.set_yticks([])
        return figure

    held, written = int((~np.isnan(owner)).sum()), int((alpha == 1.0).sum())
    return Picture(draw, f"step {step}: {names} hold {held} of {num_slots} slots, {written} of them written")
