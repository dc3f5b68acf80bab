"""Pictures of a server that runs out of memory."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from app.colours import COLOURS
from lessons.pictures import Picture
from sim import Run

QUEUES = {"running": COLOURS["live"], "swapped": COLOURS["reserved"], "waiting": COLOURS["free"]}


def queues(runs: Mapping[str, Run]) -> Picture:
    """How many requests run, lie in host memory and wait, step by step; one panel a run, one time axis."""
    figure = Figure(figsize=(8, 0.6 + 1.5 * len(runs)), layout="constrained")
    panels: Any = figure.subplots(len(runs), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (name, run) in zip(panels, runs.items(), strict=True):
        columns = [run.series.column(queue) for queue in QUEUES]
        axes.stackplot(
            run.series.column("time"),
            columns,
            labels=QUEUES,
            colors=QUEUES.values(),
            step="post",
            linewidth=0,
        )
        axes.set_title(f"{name}: {run.num_preemptions} preemptions, {run.time_s:.1f} s", fontsize=9)
        axes.set_ylabel("requests")
    panels[-1].set_xlabel("modelled time, s")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=3, frameon=False)
    text = (f"{name}: {run.num_preemptions} preemptions, {run.time_s:.1f} s" for name, run in runs.items())
    return Picture.of(figure, "; ".join(text))


def who_runs(stored: Sequence[int], block_size: int, free: int, yours: Any, right: Sequence[int]) -> Picture:
    """Requests, oldest first, with the tokens of their blocks, and who goes on by either answer."""
    figure = Figure(figsize=(8, 0.9 + 0.4 * len(stored)), layout="constrained")
    axes: Any = figure.subplots()
    said: Any = yours if isinstance(yours, (list, tuple)) else ()
    for place, count in enumerate(stored):
        held = -(-count // block_size) * block_size
        axes.barh(place, count, color=COLOURS["live"])
        axes.barh(place, held - count, left=count, color=COLOURS["reserved"])
        words = [f"{who}: {'goes on' if place in runs else 'preempted'}" for who, runs in
                 (("yours", said), ("right", right))]  # fmt: skip
        full = " (full)" if held == count else ""
        axes.text(held + 0.3, place, ", ".join(words) + full, va="center", fontsize=8)
    axes.set_yticks(range(len(stored)), [f"request {place}" for place in range(len(stored))])
    axes.invert_yaxis()
    axes.set_xlim(0, 2.2 * max([*stored, 1]) + 8)
    axes.set_xlabel("slots; pale: room in the last block")
    axes.set_title(f"{free} blocks of {block_size} free", fontsize=9)
    return Picture.of(
        figure, f"{free} blocks free, stored {list(stored)}: yours {yours!r}, right {list(right)}"
    )


def prices(recompute: float, swap: float, yours: Any, right: str) -> Picture:
    """Seconds that either way takes."""
    figure = Figure(figsize=(8, 1.5), layout="constrained")
    axes: Any = figure.subplots()
    drawn = axes.barh(["recompute", "swap"], [recompute, swap], color=[COLOURS["live"], COLOURS["reserved"]])
    axes.bar_label(drawn, labels=[f"{seconds:.4g} s" for seconds in (recompute, swap)], padding=3)
    axes.margins(x=0.15)
    axes.invert_yaxis()
    axes.set_title(f"yours: {yours!r}, right: {right!r}", fontsize=9)
    return Picture.of(
        figure, f"recompute {recompute:.4g} s, swap {swap:.4g} s: yours {yours!r}, right {right!r}"
    )
