"""Reading a trace by name, path or from standard input."""

import difflib
from pathlib import Path

from sim.errors import InputError, printable
from sim.trace.builtin import BUILTINS
from sim.trace.formats import read_rows
from sim.trace.reading import ReadOptions
from sim.trace.source import open_source
from sim.trace.trace import Trace


def read_trace(
    where: str | Path,
    *,
    format: str | None = None,
    rate: float | None = None,
    spread_s: float | None = None,
    seed: int = 0,
) -> Trace:
    """The trace that `where` names: a built-in, "-" for standard input, or a plain or gzip file.

    A built-in's name wins over a file of that name (write ./demo for the file). `format` is one of
    `FORMATS`; without it the first line tells. `rate` (requests/s, 1 if not given) and `seed` make the
    arrivals of a format that has none; `spread_s` spreads requests of one instant, where a format is known
    for that. In every format but the native one arrivals are shifted so that the first is 0.

    Raises `InputError`, one line with file, line and field, for anything that cannot be read.
    """
    options = ReadOptions(rate=rate, spread_s=spread_s, seed=seed)
    text = str(where)
    if text in BUILTINS and isinstance(where, str):
        if format is not None or options != ReadOptions(seed=seed):
            raise InputError(f"{text}: is built in; format, rate and spread_s are for files")
        return BUILTINS[text].make(seed)
    try:
        source = open_source(text)
    except FileNotFoundError:
        near = difflib.get_close_matches(text, BUILTINS, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise InputError(
            f"{printable(text)}: no such file or built-in trace: {hint}built in are {', '.join(BUILTINS)}"
        ) from None
    reading = read_rows(source, format, options)
    if not reading.requests:
        skipped = "; ".join(f"{number} skipped: {reason}" for reason, number in reading.skipped.items())
        raise source.error(f"holds no request ({skipped or 'nothing below the header'})")
    return Trace(source.name, tuple(reading.requests), dict(reading.skipped), tuple(reading.notes))
