"""`sim.Config`'s fields as widgets, and as text in an address; kinds, choices and limits are their own."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import Any

import streamlit as st

from sim import Config, InputError
from sim.dials import flag, type_of

FIELDS = {item.name: item for item in fields(Config)}
TIMINGS = ("roofline", "unit")  # the third, a file, would be one on the server's disk
MOST = 10_000_000
MOST_NAMED = 30  # choices that a message lists
FROM_ZERO = ("swap_blocks", "seed")
# What a message says of a dial without its name (`sim.bounds`, `sim.limits`).
PHRASES = {
    "pool of": "pool_tokens",
    "the pool can give": "pool_tokens",
    "the maximum length is": "max_len",
    "a step runs": "max_seqs",
    "the budget is": "max_batch_tokens",
}


def choices_of(name: str) -> list[str]:
    """The names that a dial may take; empty where it takes a number."""
    if name == "timing":
        return list(TIMINGS)
    choices = FIELDS[name].metadata["choices"]
    return choices() if choices else []


def limits_of(name: str) -> dict[str, Any]:
    """The smallest and the largest number that the page takes."""
    if type_of(FIELDS[name]) is float:
        return {"min_value": 0.0, "max_value": 0.99}
    return {"min_value": 0 if name in FROM_ZERO else 1, "max_value": MOST}


def label_of(name: str) -> str:
    """What stands above the widget."""
    unit = FIELDS[name].metadata["unit"]
    return name.replace("_", " ").capitalize() + (f" ({unit})" if unit else "")


def show_dial(name: str, key: str, **more: Any) -> Any:
    """The widget of one field; its value is in the session under `key`. `more` goes to the widget."""
    item = FIELDS[name]
    widget: Callable[..., Any] = st.number_input
    options: dict[str, Any] = {}
    if choices := choices_of(name):
        names = [None, *choices] if item.default is None else choices
        widget, options = st.selectbox, {"options": names, "format_func": _or_usual, "placeholder": "usual"}
    elif type_of(item) is bool:
        widget = st.checkbox
    else:
        options = limits_of(name) | {"placeholder": "usual"}
        if type_of(item) is float:
            options["step"] = 0.01
        if item.default is None:
            options["value"] = None
    return widget(label_of(name), key=key, help=item.metadata["help"], **options, **more)


def _or_usual(name: str | None) -> str:
    return "usual" if name is None else name


def parse(name: str, text: str) -> tuple[Any, str | None]:
    """The value that an address gives a field, or what is wrong with it."""
    item = FIELDS[name]
    if not text and item.default is None:
        return None, None
    if choices := choices_of(name):
        return parse_choice(text, choices)
    kind = type_of(item)
    if kind is bool:
        value, problem = parse_choice(text, ["True", "False"])
        return value == "True", problem
    return parse_number(text, kind, **limits_of(name))


def parse_choice(text: str, known: Iterable[str]) -> tuple[str | None, str | None]:
    """One of the names that are known."""
    known = list(known)
    if text in known:
        return text, None
    more = ["..."] if len(known) > MOST_NAMED else []
    return None, f"known are {', '.join([*known[:MOST_NAMED], *more])}"


def parse_number(
    text: str, kind: type[Any], min_value: float, max_value: float
) -> tuple[float | None, str | None]:
    """A number within the limits, both included."""
    try:
        value = kind(text)
    except ValueError:
        return None, "must be a number"
    if min_value <= value <= max_value:
        return value, None
    return None, f"must be from {min_value} to {max_value}"


def wrong(name: str, text: str, problem: str) -> str:
    """What is said of an address whose `name` cannot be understood."""
    return f"address, {name}={text[:40]}: {problem}; the usual value is shown"


def tell_beside(error: InputError, places: Mapping[str, Any]) -> None:
    """Says it in the place of the dial that it speaks of; here where it speaks of none."""
    at_fault = field_at_fault(str(error), places)
    (places[at_fault] if at_fault else st).error(str(error))


def field_at_fault(message: str, names: Iterable[str]) -> str | None:
    """Of the dials `names`, the one that an error's message speaks of first; None where it names none."""
    names = list(names)
    for phrase, name in PHRASES.items():
        if phrase in message and name in names:
            return name
    places = {
        name: min(
            (at for at in (message.find(word) for word in (flag(name), name.replace("_", " "))) if at >= 0),
            default=-1,
        )
        for name in names
    }
    told = {name: (at, -len(name)) for name, at in places.items() if at >= 0}
    return min(told, key=lambda name: told[name]) if told else None
