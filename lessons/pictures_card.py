"""A card for a case of a check in which there is nothing to draw: what was given, answered, and right."""

from collections.abc import Callable, Sequence
from functools import partial
from inspect import signature
from textwrap import shorten
from typing import Any

from matplotlib.figure import Figure

from lessons.pictures import Picture

YOURS, RIGHT = "#D55E00", "#0072B2"


def card(names: Sequence[str], *case: Any) -> Picture:
    """The arguments by name, then the answer given and the right one, which are the last two of `case`."""
    *arguments, got, expected = (shorten(" ".join(repr(part).split()), 80) for part in case)
    known = names if len(names) == len(arguments) else ["given"] * len(arguments)
    lines = [(name, text, "black") for name, text in zip(known, arguments, strict=True)]
    lines += [("answer", got, YOURS), ("right", expected, RIGHT)]
    figure = Figure(figsize=(8, 0.3 + 0.27 * len(lines)))
    for row, (name, text, colour) in enumerate(lines):
        y = 1 - (row + 0.8) / (len(lines) + 0.6)
        figure.text(0.02, y, name, color="grey", fontsize=9)
        figure.text(0.17, y, text, color=colour, fontsize=9, family="monospace")
    return Picture.of(figure, "; ".join(f"{name} {text}" for name, text, _ in lines))


def card_of(answer: Callable[..., Any]) -> Callable[..., Picture]:
    """What draws the card of a case of `answer`, with the names that its arguments have there."""
    return partial(card, list(signature(answer).parameters))
