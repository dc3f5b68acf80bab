"""Pictures of what a window keeps, and of bars that are compared."""

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure

from app.colours import COLOURS
from lessons.pictures import Picture


def kept_tokens(stored: int, window: int, sinks: int, block_size: int) -> Picture:
    """A cell a token: sinks green, the next query's window blue, dropped ones pale, lines between blocks."""
    figure = Figure(figsize=(8, 1.3), layout="constrained")
    axes: Any = figure.subplots()
    first = max(0, stored + 1 - window)
    for token in range(stored):
        kind = "cached" if token < sinks else "live" if token >= first else "free"
        axes.barh(0, 0.96, left=token + 0.02, color=COLOURS[kind], align="edge", height=0.7)
    for edge in range(0, stored + block_size, block_size):
        axes.plot((edge, edge), (-0.2, 0.9), color="black", linewidth=1)
    axes.set_yticks([])
    axes.set_xlim(-0.5, stored + block_size)
    axes.set_xlabel(f"position; blocks of {block_size}; the next query sits at {stored}")
    axes.set_title(f"green: sinks ({sinks}), blue: the window ({window}), grey: read no more", fontsize=9)
    return Picture.of(
        figure,
        f"{stored} tokens in blocks of {block_size}: the first {sinks} and those from {first} on are read",
    )


def grouped_bars(groups: Mapping[str, Mapping[str, float]], y: str) -> Picture:
    """Bars side by side, `{group: {bar: height}}`, with their numbers."""
    figure = Figure(figsize=(8, 3), layout="constrained")
    axes: Any = figure.subplots()
    names = list(next(iter(groups.values())))
    width = 0.8 / len(groups)
    colours = (COLOURS["live"], COLOURS["internal"], COLOURS["cached"])
    for index, (group, bars) in enumerate(groups.items()):
        for place, name in enumerate(names):
            x = place + (index - (len(groups) - 1) / 2) * width
            label = group if place == 0 else None
            axes.bar(x, bars[name], width * 0.92, color=colours[index], label=label)
            axes.text(x, bars[name], f"{bars[name]:.3g}", ha="center", va="bottom", fontsize=8)
    axes.set_xticks(range(len(names)), names)
    axes.set_ylabel(y)
    axes.margins(y=0.12)
    figure.legend(loc="outside upper center", ncols=len(groups), frameon=False)
    told = "; ".join(
        f"{group}: " + ", ".join(f"{name} {height:.3g}" for name, height in bars.items())
        for group, bars in groups.items()
    )
    return Picture.of(figure, f"{y}: {told}")
