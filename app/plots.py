"""Figures of the report, drawn with matplotlib: SVG for the page, PNG for slides."""

# matplotlib types its own functions only in part
# pyright: basic

from io import BytesIO
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from app.colours import COLOURS
from sim import Run
from sim.ledger import CLASSES

MAX_POINTS = 2_000  # steps drawn in a timeline: more than a figure has pixels


def ledger_bars(document: dict[str, Any]) -> Figure:
    """Mean slots by class, one bar a run; a measured bar stands hatched beside the simulated one."""
    runs = document["runs"]
    figure = Figure(figsize=(9, 0.6 + 0.5 * len(runs)), layout="constrained")
    axes: Axes = figure.subplots()
    left = np.zeros(len(runs))
    places = np.arange(len(runs))
    pools = [run["ledger"]["pool"] or 1 for run in runs]  # a run without a step has no mean, and no bar
    for name in CLASSES:
        shares = np.array([100 * run["ledger"][name] / pool for run, pool in zip(runs, pools, strict=True)])
        bars = axes.barh(
            places, shares, left=left, color=COLOURS[name], label=name, edgecolor="white", linewidth=0.5
        )
        for bar, run, share, start in zip(bars, runs, shares, left, strict=True):
            if run["source"] == "measured":
                bar.set_hatch("///")
            if share >= 4:
                ink = "black" if name in ("reserved", "rounding", "external", "free") else "white"
                plain = {"facecolor": COLOURS[name], "edgecolor": "none", "pad": 1.5}  # no hatching behind it
                style: dict[str, Any] = {"ha": "center", "va": "center", "color": ink, "bbox": plain}
                axes.text(start + share / 2, bar.get_y() + 0.4, f"{share:.1f}", **style)
        left += shares
    axes.set_yticks(places, [f"{run['allocator']}, {run['source']}" for run in runs])
    axes.invert_yaxis()
    axes.set_xlim(0, 100)
    axes.set_xlabel("% of the pool, mean over busy time")
    figure.legend(loc="outside upper center", ncols=len(CLASSES), frameon=False)
    return figure


def ledger_timelines(runs: list[Run]) -> Figure:
    """The ledger of each run against time, all on one clock and one scale."""
    figure = Figure(figsize=(9, 1.9 * len(runs)), layout="constrained")
    grid: Any = figure.subplots(len(runs), 1, sharex=True, squeeze=False)
    for axes, run in zip(grid[:, 0], runs, strict=True):
        picked = np.unique(np.linspace(0, run.num_steps - 1, min(run.num_steps, MAX_POINTS)).astype(int))
        time = run.series.column("time")[picked]
        columns = [run.series.column(name)[picked] for name in CLASSES]
        axes.stackplot(time, *columns, colors=[COLOURS[name] for name in CLASSES], labels=CLASSES)
        replica = f", replica {run.meta['replica']}" if "replica" in run.meta else ""
        axes.set_title(f"{run.config.allocator}, {run.source}{replica}", loc="left", fontsize="medium")
        axes.set_ylabel("slots")
        axes.set_xlim(left=0)
        axes.set_ylim(0, run.config.num_slots)
    grid[-1, 0].set_xlabel(f"time in s ({runs[0].clock})")
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(CLASSES), frameon=False)
    return figure


def as_svg(figure: Figure) -> str:
    """The figure as an `<svg>` element; the same figure gives the same text."""
    out = BytesIO()
    with mpl.rc_context({"svg.hashsalt": "pagelab", "svg.fonttype": "none"}):
        figure.savefig(out, format="svg", metadata={"Date": None})
    text = out.getvalue().decode()
    return text[text.index("<svg") :]


def as_png(figure: Figure) -> bytes:
    """The figure as a PNG at 150 dots per inch."""
    out = BytesIO()
    figure.savefig(out, format="png", dpi=150)
    return out.getvalue()
