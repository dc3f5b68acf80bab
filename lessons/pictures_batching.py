"""Pictures of batches: who runs at which step, and what a step costs."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from lessons.pictures import Picture
from sim import Run
from sim.events import Kind

PREFILL, DECODE, WAITING = "#E69F00", "#0072B2", "#E8E8E8"


def seats(run: Run) -> Picture:
    """A row for each request, a cell for each step: prefill, decode, or waiting for a seat."""
    ran = {name: dict[int, str]() for name in (outcome["id"] for outcome in run.requests)}
    for event in run.events:
        if event.kind in (Kind.PREFILL, Kind.DECODE) and event.request:
            ran[event.request][event.step] = PREFILL if event.kind is Kind.PREFILL else DECODE
    figure = Figure(figsize=(8, 0.9 + 0.32 * len(ran)), layout="constrained")
    axes: Any = figure.subplots()
    for row, steps in enumerate(ran.values()):
        for step in range(1, max(steps) + 1):
            axes.barh(row, 1, left=step - 0.5, color=steps.get(step, WAITING), edgecolor="white")
    axes.set_yticks(range(len(ran)), list(ran))
    axes.invert_yaxis()
    axes.set_xlim(0.5, run.num_steps + 0.5)
    axes.set_xlabel("step")
    title = f"{run.config.batching}: {run.num_steps} steps (orange: prefill, blue: decode, grey: waiting)"
    axes.set_title(title, fontsize=9)
    told = ", ".join(f"{name} in steps {min(steps)} to {max(steps)}" for name, steps in ran.items())
    return Picture.of(figure, f"{run.config.batching}, {run.num_steps} steps: {told}")


def curves(lines: Mapping[str, tuple[Sequence[float], Sequence[float]]], x: str, y: str) -> Picture:
    """Lines over a logarithmic x axis, each `(xs, ys)`."""
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    axes: Any = figure.subplots()
    for (name, (xs, ys)), style in zip(lines.items(), ("-o", "--s", ":^", "-.D"), strict=False):
        axes.plot(xs, ys, style, label=name, markersize=4)
    axes.set_xscale("log", base=2)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    told = "; ".join(f"{name}: from {ys[0]:.4g} to {ys[-1]:.4g}" for name, (_, ys) in lines.items())
    return Picture.of(figure, f"{y} by {x}: {told}")


def bars(values: Mapping[str, float], x: str) -> Picture:
    """One bar a name, with its number."""
    figure = Figure(figsize=(8, 0.8 + 0.35 * len(values)), layout="constrained")
    axes: Any = figure.subplots()
    axes.barh(range(len(values)), list(values.values()), color=DECODE)
    for row, value in enumerate(values.values()):
        axes.text(value, row, f" {value:.4g}", va="center")
    axes.set_yticks(range(len(values)), list(values))
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.set_xlabel(x)
    return Picture.of(figure, f"{x}: " + ", ".join(f"{name} {value:.4g}" for name, value in values.items()))
