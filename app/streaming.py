"""Traces of any length: read while the run goes on, with the same report less what has a line a request."""

from pathlib import Path
from typing import Any

import click

from app.interrupt import Interrupt
from app.output import Output, progress
from sim import Config, InputError
from sim.leap.cover import why_not_dials
from sim.leap.stream import simulate_stream
from sim.report import report
from sim.totals import StreamedRun
from sim.trace import TraceChoice

LARGE_BYTES = 1 << 30  # a file from which on it is streamed unasked, if it can be


def is_streamed(choice: TraceChoice, output: Output, configs: list[Config]) -> bool:
    """Whether the file is so large that it is streamed unasked, with nothing asked for against it."""
    path = Path(choice.trace)
    if not path.is_file() or path.stat().st_size < LARGE_BYTES or asked_of_each(output):
        return False
    if any(why_not_dials(config, config.max_seqs) for config in configs):
        return False
    click.echo(f"{path}: is streamed, as with --stream; per_request is left out", err=True)
    return True


def asked_of_each(output: Output) -> list[str]:
    """Options that write something about each step or request."""
    written = {"--events": output.events, "--chrome-trace": output.chrome_trace, "--series": output.series}
    written |= {"--per-request": output.per_request, "--prometheus": output.prometheus}
    return [name for name, path in {**written, "--out": output.out}.items() if path is not None]


def refuse_with_stream(output: Output, looks: list[str]) -> None:
    """Raises InputError for what needs every step or request to be kept."""
    for option in (*asked_of_each(output), *looks):
        raise InputError(f"{option} with --stream: nothing is kept of single steps and requests; drop one")


def simulate_streamed(
    choice: TraceChoice,
    num_requests: int | None,
    seed: int,
    configs: list[Config],
    output: Output,
    interrupt: Interrupt,
) -> dict[str, Any]:
    """The report of a run for each config; each reads the trace anew."""
    runs: list[StreamedRun] = []
    for config in configs:
        label = f"simulate {config.allocator}"
        with progress(label, num_requests or choice.first, shown=output.shows_progress) as on_progress:
            pieces = choice.stream(num_requests, seed)
            name = Path(choice.trace).name
            made = simulate_stream(name, pieces, config, on_progress=on_progress, is_over=interrupt)
            if on_progress:  # which heard of the last window before its requests had ended
                on_progress(made.num_finished + made.num_rejected)
            runs.append(made)
        if interrupt.came:
            break
    return report(runs)
