"""Where the results of a command go: a table, one JSON document, files, a folder with the report."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any, BinaryIO

import click
import orjson
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from app.files import write_file, write_text
from app.tables import agreement_table, runs_table
from sim import Run
from sim.report import report
from sim.series import Row
from sim.serve import OnStep


@dataclass(frozen=True, kw_only=True)
class Output:
    """What the user asked to be written, and where."""

    as_json: bool
    events: Path | None
    series: Path | None
    out: Path | None
    quiet: bool

    @classmethod
    def take(cls, options: dict[str, Any]) -> "Output":
        """Removes from `options` what `output_options` added."""
        paths = {name: options.pop(name) for name in ("events", "series", "out")}
        return cls(
            as_json=options.pop("as_json"),
            quiet=options.pop("quiet"),
            **{name: Path(path) if path else None for name, path in paths.items()},
        )

    @property
    def shows_progress(self) -> bool:
        """Progress goes to standard error, so it never mixes with results."""
        return not self.quiet

    def write(self, runs: list[Run], agreement: list[dict[str, Any]] | None = None) -> None:
        """Writes all that was asked for; the table comes last."""
        document = report(runs)
        if agreement is not None:
            document["agreement"] = agreement
        for run in runs:
            name = (
                run.config.allocator
                if len({r.source for r in runs}) == 1
                else f"{run.config.allocator}-{run.source}"
            )
            if self.events:
                write_file(_path_for(self.events, name, runs), lambda out, run=run: write_events(run, out))
            if self.series:
                write_text(_path_for(self.series, name, runs), _series_csv(run))
        if self.as_json:
            click.echo(orjson.dumps(document, option=orjson.OPT_INDENT_2))
        elif not self.quiet:
            console = Console(width=None if sys.stdout.isatty() else 110)
            console.print(runs_table(document))
            if agreement is not None:
                console.print(agreement_table(agreement))
        if self.out:
            from app.html_report import write_report  # matplotlib is slow to import: only where it draws

            path = write_report(self.out, document, runs)
            click.echo(f"plot:   {path.with_name('ledger.png')}", err=self.as_json)
            click.echo(f"report: {path}", err=self.as_json)


def write_events(run: Run, out: BinaryIO) -> None:
    """The event log as JSON Lines, in order."""
    for event in run.events:
        out.write(
            orjson.dumps(event.as_json(), option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY)
        )


def _series_csv(run: Run) -> str:
    text = StringIO()
    run.series.write_csv(text)
    return text.getvalue()


def _path_for(path: Path, name: str, runs: list[Run]) -> Path:
    """`path` itself for one run; with several, `events.jsonl` becomes `events.max.jsonl`."""
    return path if len(runs) == 1 else path.with_name(f"{path.stem}.{name}{path.suffix}")


@contextmanager
def progress(what: str, num_requests: int, *, shown: bool) -> Generator[OnStep | None]:
    """A progress bar over requests on standard error; yields the callback that moves it."""
    if not shown:
        yield None
        return
    columns = (TextColumn("{task.description:<26}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(what, total=num_requests)

        def on_step(row: Row, num_ended: int) -> None:
            bar.update(task, completed=num_ended)

        yield on_step
