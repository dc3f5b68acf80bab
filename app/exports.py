"""Runs as files to save: event logs, series, one Chrome trace of all of them."""

from collections.abc import Sequence
from io import BytesIO, StringIO

from app.chrome_trace import chrome_trace_of, write_chrome_trace
from app.output import write_events
from sim import Run


def names_of(runs: Sequence[Run]) -> list[str]:
    """What each run is called in a file name; a letter tells two of one kind apart."""
    plain = [f"{run.config.allocator}-{run.source}" for run in runs]
    if len(set(plain)) == len(plain):
        return plain
    return [f"{letter}-{name}" for letter, name in zip("abcdefgh", plain, strict=False)]


def events_file(run: Run) -> bytes:
    """The event log, one JSON object a line: as `--events`."""
    out = BytesIO()
    write_events(run, out)
    return out.getvalue()


def series_file(run: Run) -> bytes:
    """One CSV row a step: as `--series`."""
    out = StringIO()
    run.series.write_csv(out)
    return out.getvalue().encode()


def perfetto_file(runs: Sequence[Run]) -> bytes:
    """All runs side by side in one JSON file that Perfetto opens: as `--chrome-trace`."""
    out = BytesIO()
    named = enumerate(zip(names_of(runs), runs, strict=True), start=1)
    write_chrome_trace([chrome_trace_of(run.events, name, place) for place, (name, run) in named], out)
    return out.getvalue()


def all_files(runs: Sequence[Run]) -> dict[str, bytes]:
    """Every file of these runs, by name."""
    files = {"perfetto.json": perfetto_file(runs)}
    for name, run in zip(names_of(runs), runs, strict=True):
        files[f"events-{name}.jsonl"] = events_file(run)
        files[f"series-{name}.csv"] = series_file(run)
    return files
