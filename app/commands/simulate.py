"""`pagelab simulate`: one trace, one simulated run for each allocator."""

from typing import Any

import click

from app.help import SectionedCommand
from app.options import (
    config_options,
    fleet_options,
    make_configs,
    output_options,
    preset_option,
    take_fleet,
    take_trace,
    trace_options,
)
from app.output import Output, each_step, progress
from app.payload import MAX_EVENTS
from app.recording import AnyRun, server_names
from sim import Trace
from sim import simulate as simulate_trace
from sim.alloc import ALLOCATORS
from sim.events import EventLog
from sim.fleet import Fleet, simulate_fleet


@click.command(cls=SectionedCommand, short_help="simulate a trace under one or more allocators")
@trace_options
@preset_option
@click.option(
    "--allocator", "allocators", multiple=True, help=f"{' | '.join(ALLOCATORS)}; repeat it to compare"
)
@config_options(skip=("allocator",))
@fleet_options
@click.option("--step-by-step", is_flag=True, help="run every step by itself: slower, with the same report")
@output_options
def simulate(allocators: tuple[str, ...], check: bool, step_by_step: bool, **options: Any) -> None:
    """Simulate TRACE and report memory, waste and latency."""
    output = Output.take(options)
    trace = take_trace(options)
    fleet = take_fleet(options)
    configs = make_configs(allocators or ("paged",), options)
    for config in configs:
        (fleet or Fleet()).check_with(config)
    num_replicas = fleet.replicas if fleet else 1
    names = {config.allocator: server_names(config.allocator, num_replicas) for config in configs}
    recorder = output.recorder([name for of_run in names.values() for name in of_run])
    keeps_log = output.out is not None and can_be_played(trace) and not output.is_recorded
    runs: list[AnyRun] = []
    for config in configs:
        label = f"simulate {config.allocator}"
        with (
            progress(label, trace.num_requests, shown=output.shows_progress) as on_progress,
            recorder.logs(names[config.allocator]) as logs,
        ):
            if fleet:
                run = simulate_fleet(
                    trace, config, fleet, logs=logs, check=check, on_step=each_step(on_progress)
                )
            else:
                log = EventLog() if keeps_log else logs[0]
                run = simulate_trace(
                    trace, config, log=log, check=check, step_by_step=step_by_step, on_progress=on_progress
                )
            runs.append(run)
    output.write(runs, traces=recorder.traces)


def can_be_played(trace: Trace) -> bool:
    """Whether the report's player could show the run: longer logs are not kept for it."""
    return sum(request.output for request in trace) < MAX_EVENTS // 2
