"""Pictures of attention that goes over a sequence block by block."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from lessons.pictures import Picture

YOURS, RIGHT, PALE = "#D55E00", "#0072B2", "#56B4E9"


def compared(yours: NDArray[np.float64], right: NDArray[np.float64], names: Sequence[str]) -> Picture:
    """Two answers beside each other, one pair of bars for each number; NaN has no bar, so it is told."""
    figure = Figure(figsize=(8, 2.2), layout="constrained")
    axes: Any = figure.subplots()
    for shift, answer, colour, name in ((-0.2, yours, YOURS, "yours"), (0.2, right, RIGHT, "right")):
        heights = np.where(np.isfinite(answer), answer, 0.0)
        places = np.arange(len(answer)) + shift
        axes.bar(places, heights, 0.38, color=colour, label=name)
        for place, height, number in zip(places, heights, answer, strict=True):
            edge = "top" if height < 0 else "bottom"
            axes.text(place, height, f"{number:.3g}", ha="center", va=edge, fontsize=8)
    axes.margins(y=0.25)
    axes.set_xticks(range(max(len(yours), len(right))), names[: max(len(yours), len(right))])
    axes.axhline(0, color="black", linewidth=0.6)
    figure.legend(loc="outside upper center", ncols=2, frameon=False)
    return Picture.of(figure, f"yours: {yours.round(3).tolist()}, right: {right.round(3).tolist()}")


def scan(scores: Sequence[float], block_size: int, table: Sequence[int], tops: Sequence[float]) -> Picture:
    """Scores by position, block after block, with the running maximum over them."""
    figure = Figure(figsize=(8, 3), layout="constrained")
    axes: Any = figure.subplots()
    for index, top in enumerate(tops):
        first = index * block_size
        inside = scores[first : first + block_size]
        axes.bar(range(first, first + len(inside)), inside, color=(RIGHT, PALE)[index % 2])
        axes.hlines(top, first - 0.5, first + len(inside) - 0.5, color=YOURS, linewidth=2.5)
        axes.text(first + len(inside) / 2 - 0.5, max(tops) * 1.2, f"block {table[index]}", ha="center")
    axes.set_ylim(min(0.0, *scores) * 1.15, max(tops) * 1.55)
    axes.axhline(0, color="black", linewidth=0.6)
    axes.set_xlabel("position in the sequence")
    axes.set_ylabel("score")
    axes.set_title("bars: scores; orange: the running maximum after each block", fontsize=9)
    told = ", ".join(f"{top:.2f} after block {block}" for top, block in zip(tops, table, strict=False))
    return Picture.of(figure, f"running maximum: {told}")


def error_bars(errors: dict[str, float], limit: float) -> Picture:
    """Largest differences from the reference on a logarithmic axis, with what float32 allows."""
    figure = Figure(figsize=(8, 0.9 + 0.4 * len(errors)), layout="constrained")
    axes: Any = figure.subplots()
    axes.barh(range(len(errors)), [max(error, 1e-9) for error in errors.values()], color=RIGHT)
    axes.axvline(limit, color=YOURS)
    axes.set_yticks(range(len(errors)), list(errors))
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlim(limit / 100, limit * 2)
    axes.set_xlabel(f"largest difference from the reference; the line is at {limit:g}")
    return Picture.of(figure, ", ".join(f"{name}: {error:.1e}" for name, error in errors.items()))
