# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false, reportMissingTypeStubs=false
"""Results as Parquet files, which pandas, DuckDB, Polars and Spark read: steps, requests and events.

What `--series`, `--per-request` and `--events` write when the file's name ends in `.parquet`.
"""

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from sim import Run
from sim.events import Event, EventLog, Kind
from sim.files import new_file
from sim.request import Sequence
from sim.series import COLUMNS

ROWS_A_GROUP = 1 << 16  # events held in memory at most
EVENTS = pa.schema(
    [
        ("kind", pa.dictionary(pa.int8(), pa.string())),
        ("step", pa.int64()),
        ("time", pa.float64()),
        ("request", pa.string()),
        ("sequence", pa.int64()),
        ("tokens", pa.int64()),
        ("stored", pa.int64()),
        ("emitted", pa.int64()),
        ("blocks", pa.list_(pa.int64())),
        ("slots", pa.list_(pa.int64())),  # [start, length]
        ("changes", pa.string()),  # all of them, as JSON
        ("why", pa.string()),
    ]
)
REQUESTS = pa.schema(
    [
        ("id", pa.string()),
        ("status", pa.string()),
        ("reason", pa.string()),
        ("arrival", pa.float64()),
        ("first_token", pa.float64()),
        ("finish", pa.float64()),
        *((name, pa.int64()) for name in ("prompt", "output", "emitted", "preemptions")),
        ("prefills", pa.list_(pa.int64())),
        ("hit_tokens", pa.int64()),
    ]
)
TYPED = ("sequence", "tokens", "stored", "emitted", "blocks", "slots")  # changes with a column of their own


def write_steps(run: Run, out: BinaryIO) -> None:
    """The columns of `--series`, one row a step."""
    pq.write_table(pa.table({name: run.series.column(name) for name in COLUMNS}), out)


def write_requests(rows: list[dict[str, Any]], out: BinaryIO) -> None:
    """The report's `per_request`, one row each."""
    pq.write_table(pa.Table.from_pylist(rows, schema=REQUESTS), out)


class ParquetLog:
    """A sink that writes events in groups of rows, so that few are held. It must be flushed and closed."""

    def __init__(self, out: BinaryIO) -> None:
        self.time = 0.0
        self._held = EventLog()
        self._writer = pq.ParquetWriter(out, EVENTS)

    @property
    def step(self) -> int:
        return self._held.step

    @step.setter
    def step(self, step: int) -> None:
        """The loop sets it once a step, which is the time to write."""
        self._held.step = step
        if len(self._held) >= ROWS_A_GROUP:
            self.flush()

    def emit(self, kind: Kind, request: str | None, why: str, **changes: Any) -> None:
        self._held.time = self.time
        self._held.emit(kind, request, why, **changes)

    def decodes(self, sequences: list[Sequence], stored: list[int], emitted: list[int]) -> None:
        self._held.time = self.time
        self._held.decodes(sequences, stored, emitted)

    def close(self) -> None:
        """Writes the file's end."""
        self._writer.close()

    def flush(self) -> None:
        """Writes what was held back."""
        events, self._held.events = self._held.events, []
        self._writer.write_table(events_table(events))


@contextmanager
def parquet_to(path: Path) -> Generator[ParquetLog]:
    """A log whose file appears under `path` once it is complete, and not at all after an error."""
    with new_file(path) as out:
        log = ParquetLog(out)
        try:
            yield log
            log.flush()
        finally:  # after an error too: else the library writes the file's end when that is long closed
            log.close()


def events_table(events: Iterable[Event]) -> pa.Table:
    """Rows of `EVENTS`."""
    rows = [
        {
            "kind": str(event.kind),
            "step": event.step,
            "time": event.time,
            "request": event.request,
            **{name: event.changes[name] for name in TYPED if name in event.changes},
            "changes": orjson.dumps(event.changes, option=orjson.OPT_SERIALIZE_NUMPY).decode(),
            "why": event.why,
        }
        for event in events
    ]
    return pa.Table.from_pylist(rows, schema=EVENTS)
