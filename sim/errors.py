"""The one error that is meant for people: what is wrong, where, and the remedy, in one line."""

import difflib
from collections.abc import Iterable

LONGEST_MESSAGE = 1000  # characters


class InputError(ValueError):
    """Bad input or usage. The command line prints it as one line and exits with code 2.

    Whatever it quotes, its text is one line that can be printed.
    """

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


def one_line(text: str) -> str:
    """`text` on one line of at most `LONGEST_MESSAGE` characters, the middle left out if it is longer."""
    line = printable(" ".join(text.split()))
    half = LONGEST_MESSAGE // 2 - 3
    return line if len(line) <= LONGEST_MESSAGE else f"{line[:half]} ... {line[-half:]}"


def printable(text: str) -> str:
    """`text` with line ends, control characters and the like escaped."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def unknown_name(what: str, name: str, known: Iterable[str]) -> InputError:
    """An `InputError` for a name that is not among `known`, with the nearest known one."""
    names = list(known)
    longer = [one for one in names if name and one.startswith(name)]  # a100: a100-40gb is meant, not h100
    near = longer or difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return InputError(f"unknown {what} {name!r}: {hint}known are {', '.join(names)}")
