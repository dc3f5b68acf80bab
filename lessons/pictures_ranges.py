"""Pictures of contiguous ranges, and of the holes between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from app.colours import COLOURS
from lessons.pictures import Picture, sheet
from sim import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Ranges = Mapping[str, tuple[int, int]]  # name -> (start, length)


def lanes(versions: Mapping[str, Ranges], num_slots: int) -> Picture:
    """One lane of memory for each version, the ranges in it by name; what is white is free.

    A range whose name starts with `(` is drawn as an outline: something asked for, or a hole.
    """
    text = (
        f"{version}: " + ", ".join(f"{name} [{start}, {start + n})" for name, (start, n) in ranges.items())
        for version, ranges in versions.items()
    )
    return Picture(lambda: _drawn(versions, num_slots), "; ".join(text))


def _drawn(versions: Mapping[str, Ranges], num_slots: int) -> Figure:
    from matplotlib import colormaps
    from matplotlib.patches import Rectangle

    figure = sheet(0.6 + 0.55 * len(versions))
    axes: Any = figure.subplots()
    names = list(dict.fromkeys(name for ranges in versions.values() for name in ranges))
    for row, ranges in enumerate(versions.values()):
        axes.add_patch(Rectangle((0, row - 0.35), num_slots, 0.7, facecolor="white", edgecolor="grey"))
        for name, (start, length) in ranges.items():
            colour = colormaps["tab20"](names.index(name) % 20)
            filled = not name.startswith("(")
            axes.add_patch(
                Rectangle(
                    (start, row - 0.35), length, 0.7, fill=filled, facecolor=colour,
                    edgecolor="white" if filled else COLOURS["internal"], linewidth=1 if filled else 2,
                )
            )  # fmt: skip
            axes.text(start + length / 2, row, name, ha="center", va="center", fontsize=8)
    axes.set_yticks(range(len(versions)), list(versions))
    axes.set_ylim(len(versions) - 0.5, -0.5)
    axes.set_xlim(-0.01 * num_slots, 1.01 * num_slots)
    axes.set_xlabel("slots")
    return figure


def holes(versions: Mapping[str, Any], num_slots: int) -> Picture:
    """Lists of holes (start, length), one lane each; what is no such list gives an empty lane."""
    return lanes({name: _outlines(found) for name, found in versions.items()}, num_slots)


def _outlines(found: Any) -> dict[str, tuple[int, int]]:
    pairs: Sequence[Any] = found if isinstance(found, (list, tuple)) else []
    good = [pair for pair in pairs if isinstance(pair, tuple) and list(map(type, pair)) == [int, int]]
    return {f"({start}, {length})": (start, length) for start, length in good}


def ranges_at(run: Run, step: int) -> dict[str, tuple[int, int]]:
    """Who holds which range after a step of a contiguous run, for `lanes`."""
    tables = run.at(step).block_tables.items()
    return {name: (table.start, table.length) for name, table in tables if not isinstance(table, list)}
