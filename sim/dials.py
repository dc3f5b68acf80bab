"""A dial: a field of `Config` with what the command line and the sidebar need to show it."""

from collections.abc import Callable
from dataclasses import Field, field
from math import isfinite
from types import NoneType
from typing import Any, get_args

from sim.errors import InputError

MOST_BITS = 63  # of a whole number: as many as JSON's readers and SQLite keep
TYPE_NAMES = {int: "a whole number", float: "a number", bool: "True or False", str: "a text"}


def dial(default: Any, help: str, *, choices: Callable[[], list[str]] | None = None, unit: str = "") -> Any:
    """The field. `choices` are asked for late, so that they may be made from what is defined further down."""
    return field(default=default, metadata={"help": help, "choices": choices, "unit": unit})


def type_of(item: Field[Any]) -> type:
    """The type of a dial's value, where it has one: int for `int | None`."""
    hint: Any = item.type
    return next(kind for kind in (get_args(hint) or (hint,)) if kind is not NoneType)


def words(item: Field[Any]) -> str:
    """The dial's name in a sentence."""
    return item.name.replace("_", " ")


def flag(name: str) -> str:
    """The dial's name on the command line."""
    return "--" + name.replace("_", "-")


def check_type(item: Field[Any], value: Any) -> None:
    """Raises InputError for a value that is not of the dial's type; a whole number is a number too."""
    kind = type_of(item)
    is_number = isinstance(value, int) and not isinstance(value, bool)
    is_right = is_number if kind is int else isinstance(value, kind) or (kind is float and is_number)
    if not is_right:
        raise InputError(f"{words(item)} {value!r}: must be {TYPE_NAMES[kind]}")
    check_number(words(item), value)


def check_number(name: str, value: object) -> None:
    """Raises InputError for a number that no report or row could hold: JSON has no NaN and no infinity."""
    if isinstance(value, float) and not isfinite(value):
        raise InputError(f"{name} {value}: must be a finite number")
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        raise InputError(f"{name}: a whole number of {value.bit_length()} bits; at most {MOST_BITS}")


def check_seed(seed: int) -> None:
    """Raises InputError for a seed that no generator of random numbers takes, or that no report holds."""
    if seed < 0:
        raise InputError(f"seed {seed}: must be at least 0")
    check_number("seed", seed)
