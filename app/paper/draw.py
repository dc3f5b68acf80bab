"""One figure's points: ours as bars, the paper's as marks over them."""

# matplotlib types its own functions only in part
# pyright: basic

from io import BytesIO
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from app.colours import COLOURS
from app.paper.figures import FIGURES
from app.paper.point import Point

LARGE_SPREAD = 50  # largest over smallest value, from which the axis is logarithmic


def draw(points: list[Point]) -> bytes:
    """The points of one figure as SVG."""
    figure = Figure(figsize=(8, 1.4 + 0.28 * len(points)), layout="constrained")
    units = list(dict.fromkeys(point.unit for point in points))
    axes: Any = figure.subplots(
        len(units), 1, squeeze=False, height_ratios=[_count(points, unit) for unit in units]
    )
    for place, unit in enumerate(units):
        _draw_unit(axes[place, 0], [point for point in points if point.unit == unit], unit)
    name = points[0].figure
    figure.suptitle(f"Figure {name}: {FIGURES[name].title}", fontsize=10)
    axes[0, 0].legend(frameon=False, fontsize=8)
    out = BytesIO()
    figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()


def _count(points: list[Point], unit: str) -> int:
    return sum(point.unit == unit for point in points) + 1


def _draw_unit(axes: Any, points: list[Point], unit: str) -> None:
    rows = np.arange(len(points))
    axes.barh(rows, [point.ours for point in points], color=COLOURS["reserved"], label="ours, simulated")
    for row, point in zip(rows, points, strict=True):
        low, high = point.paper if isinstance(point.paper, tuple) else (point.paper, point.paper)
        label = "paper" if not row else None
        axes.plot([low, high], [row, row], color=COLOURS["internal"], marker="|", markersize=12, label=label)
    positive = [value for point in points for value in (point.ours,) if value > 0]
    if positive and max(positive) > LARGE_SPREAD * min(positive):
        axes.set_xscale("log")
    axes.set_yticks(rows, [point.point for point in points], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel(unit, fontsize=8)
