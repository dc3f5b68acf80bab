"""`pagelab simulate`: one trace, one simulated run for each allocator."""

from typing import Any

import click

from app.options import config_options, make_configs, output_options, take_trace, trace_options
from app.output import Output, progress
from app.payload import MAX_EVENTS
from sim import Run, Trace
from sim import simulate as simulate_trace


@click.command(short_help="simulate a trace under one or more allocators")
@trace_options
@click.option(
    "--allocator", "allocators", multiple=True, help="max, pow2, oracle or paged; repeat it to compare"
)
@config_options(skip=("allocator",))
@output_options
def simulate(allocators: tuple[str, ...], check: bool, **options: Any) -> None:
    """Simulate TRACE and report memory, waste and latency."""
    output = Output.take(options)
    trace = take_trace(options)
    configs = make_configs(allocators or ("paged",), options)
    runs: list[Run] = []
    for config in configs:
        with progress(
            f"simulate {config.allocator}", trace.num_requests, shown=output.shows_progress
        ) as on_step:
            record = output.events is not None or (output.out is not None and can_be_played(trace))
            runs.append(simulate_trace(trace, config, record=record, check=check, on_step=on_step))
    output.write(runs)


def can_be_played(trace: Trace) -> bool:
    """Whether the report's player could show the run: longer logs are not kept for it."""
    return sum(request.output for request in trace) < MAX_EVENTS // 2
