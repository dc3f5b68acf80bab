"""The event log written as it comes: JSON Lines, one event a line, none of them kept in memory.

Line for line and byte for byte what `Event.as_json` of an `EventLog` gives (tests/sim/test_stream.py).
"""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from sim.events import Event, Kind, decode_why
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
        self._tails: list[str] = []  # ends of a decode's line, by the number of tokens emitted
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

    def decodes(self, sequences: list[Sequence], stored: list[int], emitted: list[int]) -> None:
        step, time = self._step, orjson.dumps(self.time).decode()
        head = f'{{"kind":"decode","step":{step},"time":{time},"request":'
        self._know_tails(max(emitted, default=0))
        rows = zip(map(self._names.__getitem__, sequences), stored, emitted, strict=True)
        tails = self._tails
        lines = [f"{head}{name}{num_stored}{tails[num]}" for name, num_stored, num in rows]
        self._add("".join(lines).encode())
        self.num_events += len(lines)

    def _know_tails(self, most: int) -> None:
        tails = self._tails
        tails += [f',"emitted":{num},"why":"{decode_why(num)}"}}\n' for num in range(len(tails), most + 1)]

    def flush(self) -> None:
        """Writes what was held back."""
        self._out.write(b"".join(self._lines))
        self._lines.clear()
        self._num_bytes = 0

    def _add(self, lines: bytes) -> None:
        self._lines.append(lines)
        self._num_bytes += len(lines)


class _JsonNames(dict[Sequence, str]):
    """Ids of the requests of sequences as JSON, and the key that follows; each is made once."""

    def __missing__(self, sequence: Sequence) -> str:
        self[sequence] = name = f'{orjson.dumps(sequence.request.id).decode()},"stored":'
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
