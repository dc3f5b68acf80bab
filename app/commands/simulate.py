"""`pagelab simulate`: one trace, one simulated run for each allocator."""

from typing import Any

import click
from sim import simulate as simulate_trace
from sim.fleet import Fleet, simulate_fleet

from app.options import (
    config_options,
    fleet_options,
    make_configs,
    output_options,
    take_fleet,
    take_trace,
    trace_options,
)
from app.output import Output, progress
from app.recording import AnyRun, server_names


@click.command(short_help="simulate a trace under one or more allocators")
@trace_options
@click.option(
    "--allocator", "allocators", multiple=True, help="max, pow2, oracle or paged; repeat it to compare"
)
@config_options(skip=("allocator",))
@fleet_options
@output_options
def simulate(allocators: tuple[str, ...], check: bool, **options: Any) -> None:
    """Simulate TRACE and report memory, waste and latency."""
    output = Output.take(options)
    trace = take_trace(options)
    fleet = take_fleet(options)
    configs = make_configs(options, allocators or ("paged",))
    for config in configs:
        (fleet or Fleet()).check_with(config)
    num_replicas = fleet.replicas if fleet else 1
    names = {config.allocator: server_names(config.allocator, num_replicas) for config in configs}
    recorder = output.recorder([name for of_run in names.values() for name in of_run])
    runs: list[AnyRun] = []
    for config in configs:
        label = f"simulate {config.allocator}"
        with (
            progress(label, trace.num_requests, shown=output.shows_progress) as on_step,
            recorder.logs(names[config.allocator]) as logs,
        ):
            if fleet:
                run = simulate_fleet(trace, config, fleet, logs=logs, check=check, on_step=on_step)
            else:
                run = simulate_trace(trace, config, log=logs[0], check=check, on_step=on_step)
            runs.append(run)
    output.write(runs, traces=recorder.traces)
