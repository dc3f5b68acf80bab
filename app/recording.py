"""What is written while a run goes on: its event log, streamed, and the spans of a Chrome trace."""

import sys
from collections.abc import Generator, Iterable
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

from app.chrome_trace import ChromeTrace
from app.recorded import Recording
from sim import InputError, Run
from sim.events import NullLog, Sink, Tee
from sim.fleet import FleetRun
from sim.stream import StreamLog, json_line, stream_to

STANDARD_OUTPUT = Path("-")
AnyRun = Run | FleetRun


class Recorder:
    """Gives each server its log: what `--events` and `--chrome-trace` ask for, and nothing if they do not."""

    def __init__(self, events: Path | None, *, chrome_trace: bool, names: list[str]) -> None:
        self.traces: list[ChromeTrace] = []
        self._events = events
        self._wants_trace = chrome_trace
        self._names = names
        if events == STANDARD_OUTPUT and len(names) > 1:
            raise InputError(
                f"--events - with {len(names)} runs ({', '.join(names)}): give a file name instead"
            )

    @contextmanager
    def log(self, name: str) -> Generator[Sink]:
        """The log of the server called `name`; its file appears when the block ends without an error."""
        sinks: list[Sink] = []
        if self._wants_trace:
            self.traces.append(ChromeTrace(name, process=len(self.traces) + 1))
            sinks.append(self.traces[-1])
        if self._events is None:
            yield Tee(*sinks) if sinks else NullLog()
            return
        with _stream(path_for(self._events, name, self._names)) as stream:
            yield Tee(stream, *sinks) if sinks else stream

    @contextmanager
    def logs(self, names: list[str]) -> Generator[list[Sink]]:
        """The logs of several servers that run at once."""
        with ExitStack() as stack:
            yield [stack.enter_context(self.log(name)) for name in names]


@contextmanager
def _stream(path: Path) -> Generator[Sink]:
    if is_parquet(path):
        from app.parquet import parquet_to  # pyarrow takes a while to import

        with parquet_to(path) as log:
            yield log
        return
    if path != STANDARD_OUTPUT:
        with stream_to(path) as log:
            yield log
        return
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison]  (`>&-` in a shell)
        raise InputError("--events -: standard output is closed; name a file")
    log = StreamLog(sys.stdout.buffer)
    yield log
    log.flush()
    sys.stdout.buffer.flush()


def is_parquet(path: Path) -> bool:
    """Whether the name asks for a Parquet file."""
    return path.suffix == ".parquet"


def path_for(path: Path, name: str, names: list[str]) -> Path:
    """`path` itself for one run; with several, `events.jsonl` becomes `events.max.jsonl`."""
    return path if len(names) == 1 else path.with_name(f"{path.stem}.{name}{path.suffix}")


def server_names(allocator: str, num_replicas: int) -> list[str]:
    """What the servers of one run are called in file names and traces."""
    if num_replicas == 1:
        return [allocator]
    return [f"{allocator}.replica{index}" for index in range(num_replicas)]


def servers(runs: Iterable[AnyRun]) -> list[tuple[str, Run]]:
    """Every single server's run, by name. Where both sides are there, the name says which."""
    runs = list(runs)
    both = len({run.source for run in runs}) > 1
    named: list[tuple[str, Run]] = []
    for run in runs:
        allocator = f"{run.config.allocator}-{run.source}" if both else run.config.allocator
        of_run = run.runs if isinstance(run, FleetRun) else [run]
        named += zip(server_names(allocator, len(of_run)), of_run, strict=True)
    return named


def write_events(run: Run | Recording, out: BinaryIO) -> None:
    """A log that was kept, as JSON Lines, in order."""
    for event in run.events:
        out.write(json_line(event))
