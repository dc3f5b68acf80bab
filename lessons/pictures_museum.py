"""A card for one case of a museum piece: what was put in, what came out, what should have."""

from collections.abc import Sequence
from textwrap import shorten
from typing import Any

from matplotlib.figure import Figure

from lessons.pictures import Picture

YOURS, RIGHT = "#D55E00", "#0072B2"


def card(names: Sequence[str], *case: Any) -> Picture:
    """The arguments by name, then the answer given and the right one, which are the last two of `case`."""
    *arguments, got, expected = (shorten(" ".join(repr(part).split()), 80) for part in case)
    lines = [(name, text, "black") for name, text in zip(names, arguments, strict=True)]
    lines += [("answer", got, YOURS), ("right", expected, RIGHT)]
    figure = Figure(figsize=(8, 0.3 + 0.27 * len(lines)))
    for row, (name, text, colour) in enumerate(lines):
        y = 1 - (row + 0.8) / (len(lines) + 0.6)
        figure.text(0.02, y, name, color="grey", fontsize=9)
        figure.text(0.17, y, text, color=colour, fontsize=9, family="monospace")
    return Picture(figure, "; ".join(f"{name} {text}" for name, text, _ in lines))
