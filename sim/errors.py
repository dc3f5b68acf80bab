"""The one error that is meant for people: what is wrong, where, and the remedy, in one line."""

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """Bad input or usage. The command line prints it as one line and exits with code 2."""


def unknown_name(what: str, name: str, known: Iterable[str]) -> InputError:
    """An `InputError` for a name that is not among `known`, with the nearest known one."""
    names = list(known)
    longer = [one for one in names if name and one.startswith(name)]  # a100: a100-40gb is meant, not h100
    near = longer or difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return InputError(f"unknown {what} {name!r}: {hint}known are {', '.join(names)}")
