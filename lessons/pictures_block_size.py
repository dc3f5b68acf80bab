"""Pictures of sequences cut into blocks, and of curves over the block size."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from app.colours import COLOURS
from lessons.pictures import Picture


def sequences(lengths: Sequence[int], block_size: int, common: int = 0) -> Picture:
    """A row for each sequence: the first `common` tokens green, empty slots pale, lines between blocks."""
    figure = Figure(figsize=(8, 0.9 + 0.3 * len(lengths)), layout="constrained")
    axes: Any = figure.subplots()
    longest = 0
    for row, length in enumerate(lengths):
        held = -(-length // block_size) * block_size
        longest = max(longest, held)
        alike = min(common, length)
        for left, width, kind in (
            (0, alike, "cached"),
            (alike, length - alike, "live"),
            (length, held - length, "reserved"),
        ):
            axes.barh(row, width, left=left, color=COLOURS[kind], height=0.7)
        for edge in range(0, held + 1, block_size):
            axes.plot((edge, edge), (row - 0.42, row + 0.42), color="black", linewidth=1)
    axes.set_yticks(range(len(lengths)), [f"{length} tokens" for length in lengths])
    axes.invert_yaxis()
    axes.set_xlim(-0.2, longest + 0.2)
    axes.set_xlabel(f"slots; blocks of {block_size}")
    told = "begin alike, " if common else ""
    title = "blue: own tokens, pale: empty" + (f", green: the {common} tokens in common" if common else "")
    axes.set_title(title, fontsize=9)
    return Picture.of(figure, f"sequences of {list(lengths)} tokens, {told}in blocks of {block_size}")


def table_row(table: Sequence[int]) -> Picture:
    """A block table as boxes, one colour for each piece of consecutive blocks."""
    figure = Figure(figsize=(8, 1.1), layout="constrained")
    axes: Any = figure.subplots()
    piece = 0
    for place, block in enumerate(table):
        piece += place > 0 and block != table[place - 1] + 1
        axes.barh(0, 1, left=place, color=list(COLOURS.values())[piece % 6], edgecolor="white", alpha=0.6)
        axes.text(place + 0.5, 0, str(block), ha="center", va="center")
    axes.set_axis_off()
    axes.set_title("a block table; a new colour where the next block does not follow", fontsize=9)
    return Picture.of(figure, f"block table {list(table)}")


def over_sizes(
    lines: Mapping[str, Mapping[int, float]],
    y: str,
    *,
    logarithmic: bool = False,
    bottom: float | None = None,
) -> Picture:
    """Lines over the block size, each `{block size: value}`; the smallest value of each has a ring."""
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    axes: Any = figure.subplots()
    for (name, line), style in zip(lines.items(), ("-o", "--s", ":^"), strict=False):
        (drawn,) = axes.plot(list(line), list(line.values()), style, label=name, markersize=4)
        best = min(line, key=lambda size: line[size])
        axes.plot(best, line[best], "o", markersize=12, markerfacecolor="none", color=drawn.get_color())
    axes.set_xscale("log", base=2)
    axes.set_xticks(list(next(iter(lines.values()))))
    axes.xaxis.set_major_formatter(lambda size, _: f"{size:.0f}")
    if logarithmic:
        axes.set_yscale("log")
    if bottom is not None:
        axes.set_ylim(bottom=bottom)
    axes.set_xlabel("block size, tokens")
    axes.set_ylabel(y)
    axes.legend(frameon=False)
    told = "; ".join(
        f"{name}: " + ", ".join(f"{value:.3g} at {size}" for size, value in line.items())
        for name, line in lines.items()
    )
    return Picture.of(figure, f"{y}: {told}")
