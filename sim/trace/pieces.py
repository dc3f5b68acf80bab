"""A trace read or generated piece by piece, so that its length does not matter.

The pieces together are what `Trace.read` gives, but for two things that need the whole of it: requests must
be in order of arrival already, and that no id stands twice is not looked at.
"""

import gzip
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TextIO

from sim.errors import InputError
from sim.request import Request
from sim.trace.builtin import BUILTINS
from sim.trace.formats import detect, read_rows
from sim.trace.reading import ReadOptions
from sim.trace.source import Source, printable

PIECE = 1 << 16  # requests held at once, beside those that are being served
# Formats whose rows say all there is to a request, and whether they have a header. (A turn of Qwen-Bailian
# belongs to the session of an earlier row, and lengths without arrivals get them all together.)
STREAMED = {"native": False, "azure": True, "burstgpt": True, "mooncake": False, "vidur": True}
# Whose ids count its rows, and its time from the first request, which therefore goes along with every piece.
COUNTING = frozenset(STREAMED) - {"native"}


def read_pieces(where: str, *, format: str | None = None) -> Iterator[list[Request]]:
    """The requests of a plain or gzip file. Raises InputError, with file, line and field."""
    label, name = printable(where), printable(Path(where).name)
    with _opened(where) as text, _said_in_one_line(label):
        first = text.readline()
        source = Source(label, name, (first.removeprefix("\ufeff").rstrip("\r\n"),))
        found = format or detect(source)
        if found not in STREAMED:
            raise InputError(
                f"{label}: format {found} cannot be streamed, only {', '.join(STREAMED)} can; "
                "`pagelab trace convert` writes native"
            )
        has_header = STREAMED[found]
        head = source.lines if has_header else ()
        lines = text if has_header else _chain(source.lines[0], text)
        yield from _pieces(Source(label, name, head), lines, found)


def _chain(first: str, rest: TextIO) -> Iterator[str]:
    yield first
    yield from rest


def _pieces(head: Source, lines: Iterator[str] | TextIO, format: str) -> Iterator[list[Request]]:
    num_lines = num_requests = 0
    first_row: tuple[str, ...] = ()  # which says when the trace begins
    while piece := tuple(line.rstrip("\r\n") for line in islice(lines, PIECE)):
        if not any(map(str.strip, piece)):
            num_lines += len(piece)
            continue
        source = replace(head, lines=(*head.lines, *first_row, *piece), num_before=num_lines - len(first_row))
        requests = read_rows(source, format, ReadOptions()).requests[len(first_row) :]
        if format in COUNTING:
            requests = [replace(one, id=f"r{num_requests + place}") for place, one in enumerate(requests)]
            first_row = first_row or _first_request(head, piece, format)
        yield requests
        num_lines += len(piece)
        num_requests += len(requests)


def _first_request(head: Source, piece: tuple[str, ...], format: str) -> tuple[str, ...]:
    """The first line that is a request, as a tuple; none where a reader skips all of `piece`."""
    for line in filter(str.strip, piece):
        if read_rows(replace(head, lines=(*head.lines, line)), format, ReadOptions()).requests:
            return (line,)
    return ()


def _opened(where: str) -> TextIO:
    try:
        with open(where, "rb") as file:
            is_packed = file.read(2) == b"\x1f\x8b"
        return gzip.open(where, "rt", encoding="utf-8") if is_packed else open(where, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{printable(where)}: {error.strerror}; name a file, or a generated trace") from None


@contextmanager
def _said_in_one_line(label: str) -> Generator[None]:
    try:
        yield
    except UnicodeDecodeError:
        raise InputError(f"{label}: is not UTF-8 text; save the file as UTF-8") from None
    except (EOFError, OSError, zlib.error) as error:
        raise InputError(f"{label}: is damaged ({error}); copy or download it again") from None


def generate_pieces(name: str, num_requests: int, seed: int) -> Iterator[list[Request]]:
    """`num_requests` by the law of the built-in trace `name`. Raises InputError where it has none."""
    law = BUILTINS[name].law if name in BUILTINS else None
    if law is None:
        generated = ", ".join(known for known, builtin in BUILTINS.items() if builtin.law)
        raise InputError(f"--requests {num_requests} with {name}: only {generated} can be of any length")
    yield from law.pieces(num_requests, seed, PIECE)
