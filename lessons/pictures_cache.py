"""Pictures of what a KV cache saves and what it takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from app.colours import COLOURS
from lessons.pictures import Picture, sheet

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLUE, ORANGE = COLOURS["live"], COLOURS["internal"]


def bars(yours: Any, right: float, unit: str) -> Picture:
    """An answer beside the right one."""

    def draw() -> Figure:
        figure = sheet(1.4)
        axes: Any = figure.subplots()
        length = float(yours) if isinstance(yours, (int, float)) else 0.0
        drawn = axes.barh(["yours", "right"], [length, right], color=[ORANGE, BLUE])
        axes.bar_label(drawn, labels=[repr(yours), f"{right:,}"], padding=3)
        axes.margins(x=0.2)
        axes.invert_yaxis()
        axes.set_xlabel(unit)
        return figure

    return Picture(draw, f"{unit}: yours {yours!r}, right {right!r}")


def arrays(named: Mapping[str, Any]) -> Picture:
    """Arrays as coloured cells, one beside the other; what is no array of numbers stands as text."""

    def draw() -> Figure:
        columns = -(-len(named) // 2)
        figure = sheet(4)
        for place, (name, array) in enumerate(named.items(), start=1):
            axes: Any = figure.add_subplot(2, columns, place)
            axes.set_title(f"{name} {list(np.shape(array))}", fontsize=9)
            axes.set_xticks([])
            axes.set_yticks([])
            try:
                cells = np.atleast_2d(np.asarray(array, dtype=float))
                if cells.size:
                    axes.imshow(cells, cmap="coolwarm", vmin=-2, vmax=2, aspect="auto")
            except (TypeError, ValueError):
                axes.text(0.1, 0.5, repr(array)[:30])
        return figure

    return Picture(draw, "; ".join(f"{name} has shape {list(np.shape(a))}" for name, a in named.items()))


def work_and_memory(without: Sequence[int], cached: Sequence[int], stored: Sequence[int]) -> Picture:
    """What each step multiplies, with and without a cache, and the tokens that the cache holds then."""

    def draw() -> Figure:
        figure = sheet(2.8)
        left, right = figure.subplots(1, 2)
        steps = range(1, len(without) + 1)
        work: Any = left
        work.plot(steps, without, color=ORANGE, marker="o", markersize=3, label="without a cache")
        work.plot(steps, cached, color=BLUE, marker="s", markersize=3, label="with a cache")
        work.set(xlabel="step", ylabel="multiplications")
        work.legend(frameon=False)
        memory: Any = right
        memory.bar(steps, stored, color=BLUE)
        memory.set(xlabel="step", ylabel="tokens in the cache")
        return figure

    return Picture(
        draw,
        f"step {len(without)} takes {without[-1]:,} multiplications without a cache and {cached[-1]:,} "
        f"with one, which then holds {stored[-1]} tokens",
    )


def sizes(bytes_of: Mapping[str, int]) -> Picture:
    """Bytes of one token, a bar a model."""

    def draw() -> Figure:
        figure = sheet(0.8 + 0.3 * len(bytes_of))
        axes: Any = figure.subplots()
        drawn = axes.barh(list(bytes_of), list(bytes_of.values()), color=BLUE)
        axes.bar_label(drawn, labels=[f"{count:,}" for count in bytes_of.values()], padding=3)
        axes.margins(x=0.15)
        axes.invert_yaxis()
        axes.set_xlabel("bytes of keys and values, one token, fp16")
        return figure

    return Picture(draw, "; ".join(f"{name}: {count:,} bytes a token" for name, count in bytes_of.items()))
