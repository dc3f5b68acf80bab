"""Where the results of a command go: a table, one JSON document, files, a folder with the report."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import orjson
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from app.chrome_trace import ChromeTrace, chrome_trace_of, write_chrome_trace
from app.files import only_writer, write_file
from app.prometheus import write_prometheus
from app.recording import STANDARD_OUTPUT, AnyRun, Recorder, path_for, servers
from app.rejections import rejections
from app.rows import write_events, write_requests, write_steps
from app.tables import agreement_table, forecast_table, peers_table, runs_table
from app.waiting import Lines
from sim import InputError, Run
from sim.files import refuse_place
from sim.report import report
from sim.serve import OnProgress, OnStep

PLACES = ("events", "chrome_trace", "series", "per_request", "prometheus", "out")


@dataclass(frozen=True, kw_only=True)
class Output:
    """What the user asked to be written, and where."""

    as_json: bool
    events: Path | None
    chrome_trace: Path | None
    series: Path | None
    per_request: Path | None
    prometheus: Path | None
    out: Path | None
    quiet: bool

    @classmethod
    def take(cls, options: dict[str, Any]) -> "Output":
        """Removes from `options` what `output_options` added; takes the places where results go.

        Raises InputError for a place that cannot be written, before anything has run.
        """
        paths = {name: options.pop(name) for name in PLACES}
        if paths["events"] == "-" and options["as_json"]:
            raise InputError("--events - with --json: both would be written to standard output; name a file")
        for name, path in paths.items():
            if path and path != "-" and name != "out":
                refuse_place(Path(path))
        if paths["out"]:
            click.get_current_context().with_resource(only_writer(Path(paths["out"])))
        return cls(
            as_json=options.pop("as_json"),
            quiet=options.pop("quiet"),
            **{name: Path(path) if path else None for name, path in paths.items()},
        )

    @property
    def shows_progress(self) -> bool:
        """Progress goes to standard error, so it never mixes with results."""
        return not self.quiet

    @property
    def is_recorded(self) -> bool:
        """Whether events go to a file while the run goes on, so that none are kept in memory."""
        return self.events is not None or self.chrome_trace is not None

    def recorder(self, names: list[str]) -> Recorder:
        """What gives the servers called `names` their logs."""
        return Recorder(self.events, chrome_trace=self.chrome_trace is not None, names=names)

    def write(
        self,
        runs: list[AnyRun],
        agreement: list[dict[str, Any]] | None = None,
        forecasts: list[dict[str, Any]] | None = None,
        peers: list[dict[str, Any]] | None = None,
        *,
        traces: list[ChromeTrace] | None = None,
    ) -> None:
        """Writes all that was asked for and is not written yet; the table comes last.

        Runs that were streamed have no events left to write, but then `traces` are their Chrome traces.
        """
        document = report(runs)
        if agreement is not None:
            document["agreement"] = agreement
        if forecasts:
            document["forecast"] = forecasts
        if peers:
            document["peers"] = peers
        named = servers(runs)
        self._write_logs(named, traces)
        self.show(document)
        if self.out:
            from app.html_report import write_report  # matplotlib is slow to import: only where it draws

            path = write_report(self.out, document, named)
            to_stderr = self.as_json or self.events == STANDARD_OUTPUT
            click.echo(f"plot:   {path.with_name('ledger.png')}", err=to_stderr)
            click.echo(f"report: {path}", err=to_stderr)

    def show(self, document: dict[str, Any]) -> None:
        """The report on standard output, as it was asked for."""
        if self.as_json:
            click.echo(orjson.dumps(document, option=orjson.OPT_INDENT_2))
        elif not self.quiet and self.events != STANDARD_OUTPUT:
            console = Console(width=None if sys.stdout.isatty() else 120)
            console.print(runs_table(document))
            for line in (line for run in document["runs"] for line in rejections(run)):
                click.echo(line)
            if "agreement" in document:
                console.print(agreement_table(document["agreement"]))
            for each in document.get("forecast", ()):
                console.print(forecast_table(each))
            if "peers" in document:
                console.print(peers_table(document))

    def _write_logs(self, named: list[tuple[str, Run]], traces: list[ChromeTrace] | None) -> None:
        names = [name for name, _ in named]
        for name, run in named:
            if self.events and traces is None:
                write_events(run, path_for(self.events, name, names))
            if self.series:
                write_steps(run, path_for(self.series, name, names))
            if self.per_request:
                write_requests(run, path_for(self.per_request, name, names))
        if self.prometheus:
            write_file(self.prometheus, lambda out: write_prometheus(named, out))
        if self.chrome_trace:
            if traces is None:
                traces = [
                    chrome_trace_of(run.events, name, process)
                    for process, (name, run) in enumerate(named, start=1)
                ]
            write_file(self.chrome_trace, lambda out: write_chrome_trace(traces, out))


@contextmanager
def progress(what: str, num_requests: int | None, *, shown: bool) -> Generator[OnProgress | None]:
    """Progress over requests on standard error, whose number may be unknown; yields what moves it.

    A bar; where that is no terminal, a line now and then, and the bar as it stands in the end.
    """
    if not shown:
        yield None
        return
    columns = (TextColumn("{task.description:<26}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True))
    task = bar.add_task(what, total=num_requests)

    lines = None if sys.stderr.isatty() else Lines(what, num_requests)

    def on_progress(num_ended: int) -> None:
        if lines:
            lines.reach(num_ended)
        bar.start()  # with the first news: what is refused before it leaves one line and no bar
        bar.update(task, completed=num_ended)

    try:
        yield on_progress
    finally:
        if bar.live.is_started:
            bar.stop()


def each_step(on_progress: OnProgress | None) -> OnStep | None:
    """The same news for a run that tells of every step."""
    if on_progress is None:
        return None
    return lambda _, num_ended: on_progress(num_ended)
