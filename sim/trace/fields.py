"""Values of a trace's fields: one function a kind of value, and the error that names the field.

A `FieldError` knows the field and what is wrong with it; who reads the file adds file and line.
"""

import math
from typing import Any, cast

from sim.errors import InputError

MAX_SECONDS = 10**12  # 31,000 years; more is a slip
MAX_TOKENS = 10**9  # a token count above this is a slip, and would overflow the arithmetic behind it


class FieldError(InputError):
    """One field of one row is bad. `problem` is what is wrong and the remedy."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


def shown(value: object) -> str:
    """`value` as it may stand in a one-line message."""
    try:
        text = repr(value)
    except ValueError:  # an integer of more digits than Python converts
        return "a huge integer"
    return text if len(text) <= 40 else text[:37] + "..."


def text_count(field: str, text: str, least: int = 1) -> int:
    """A whole number written in a CSV cell."""
    stripped = text.strip()
    if stripped.isascii() and stripped.isdigit() and len(stripped) <= 18:
        value = int(stripped)
        if least <= value <= MAX_TOKENS:
            return value
    raise FieldError(field, f"{shown(text)} must be a whole number from {least} to {MAX_TOKENS}")


def text_seconds(field: str, text: str) -> float:
    """A finite time in seconds, at least 0, written in a CSV cell."""
    try:
        value = float(text) if text.isascii() and "_" not in text else math.nan
    except ValueError:
        value = math.nan
    if not 0 <= value <= MAX_SECONDS:
        raise FieldError(field, f"{shown(text)} must be a finite number of seconds, at least 0")
    return value


def count(field: str, value: object, least: int = 1, most: int = MAX_TOKENS) -> int:
    """A JSON integer in a range; true and 3.0 are none."""
    if type(value) is int and least <= value <= most:
        return value
    raise FieldError(field, f"{shown(value)} must be a whole number from {least} to {most}")


def seconds(field: str, value: object) -> float:
    """A JSON number that is a finite time in seconds, at least 0."""
    if (type(value) is float or type(value) is int) and 0 <= value <= MAX_SECONDS:
        return float(value)
    raise FieldError(field, f"{shown(value)} must be a finite number of seconds, at least 0")


def name(field: str, value: object) -> str:
    """A JSON string, or an integer that serves as one, fit to be printed on one line."""
    text = str(value) if type(value) is int and abs(value) < 2**64 else value
    if isinstance(text, str) and text and text.isprintable():
        return text
    raise FieldError(field, f"{shown(value)} must be printable text of at least one character")


def ids(field: str, value: object) -> tuple[int, ...]:
    """A JSON list of integers from 0 up (token ids, block ids, parent indices)."""
    if not isinstance(value, list):
        raise FieldError(field, f"{shown(value)} must be a list of whole numbers")
    items = cast("list[Any]", value)
    for place, item in enumerate(items):
        if type(item) is not int or not 0 <= item < 2**63:
            raise FieldError(field, f"{shown(item)} at index {place} must be a whole number of at least 0")
    return tuple(items)
