"""The event log written as it comes: JSON Lines, one event a line, none of them kept in memory.

Line for line and byte for byte what `Event.as_json` of an `EventLog` gives (tests/sim/test_stream.py).
"""

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from sim.events import Event, Kind
from sim.files import new_file
from sim.request import Sequence

CHUNK_BYTES = 1 << 20  # held back between two writes, at most about that much
_OPTIONS = orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY
_NAMES = {kind: kind.value for kind in Kind}


def json_line(event: Event) -> bytes:
    """One line of an event file."""
    return orjson.dumps(event.as_json(), option=_OPTIONS)


class StreamLog:
    """A sink that writes to `out`. Whoever opened `out` must `flush` before closing it."""

    def __init__(self, out: BinaryIO) -> None:
        self.num_events = 0
        self.time = 0.0
        self._step = 0
        self._out = out
        self._names = _JsonNames()
        self._lines: list[bytes] = []
        self._num_bytes = 0

    @property
    def step(self) -> int:
        return self._step

    @step.setter
    def step(self, step: int) -> None:
        """The loop sets it once a step, which is the time to write."""
        self._step = step
        if self._num_bytes >= CHUNK_BYTES:
            self.flush()

    def emit(self, kind: Kind, request: str | None, why: str, **changes: Any) -> None:
        head = {"kind": _NAMES[kind], "step": self._step, "time": self.time, "request": request}
        self._add(orjson.dumps({**head, **changes, "why": why}, option=_OPTIONS))
        self.num_events += 1

    def decodes(self, sequences: Iterable[Sequence]) -> None:
        step, time = self._step, orjson.dumps(self.time).decode()
        head = f'{{"kind":"decode","step":{step},"time":{time},"request":'
        names = self._names
        lines = [
            f'{head}{names[s]},"stored":{s.stored},"emitted":{s.emitted},"why":"emits token {s.emitted}"}}\n'
            for s in sequences
        ]
        self._add("".join(lines).encode())
        self.num_events += len(lines)

    def flush(self) -> None:
        """Writes what was held back."""
        self._out.write(b"".join(self._lines))
        self._lines.clear()
        self._num_bytes = 0

    def _add(self, lines: bytes) -> None:
        self._lines.append(lines)
        self._num_bytes += len(lines)


class _JsonNames(dict[Sequence, str]):
    """Ids of the requests of sequences as JSON, quotes included; each is made once."""

    def __missing__(self, sequence: Sequence) -> str:
        self[sequence] = name = orjson.dumps(sequence.request.id).decode()
        return name


@contextmanager
def stream_to(path: Path) -> Generator[StreamLog]:
    """A log whose file appears under `path` once it is complete, and not at all after an error.

    Raises InputError when the file cannot be written.
    """
    with new_file(path) as out:
        log = StreamLog(out)
        yield log
        log.flush()
