"""`pagelab simulate`: one trace, one simulated run for each allocator."""

from typing import Any

import click

from app.help import SectionedCommand
from app.interrupt import Interrupt, listening
from app.options import (
    config_options,
    fleet_options,
    make_configs,
    output_options,
    preset_option,
    take_choice,
    take_fleet,
    trace_options,
)
from app.output import Output, each_step, progress
from app.payload import MAX_EVENTS
from app.recording import AnyRun, server_names
from app.streaming import is_streamed, refuse_with_stream, simulate_streamed
from sim import Config, Trace
from sim import simulate as simulate_trace
from sim.alloc import ALLOCATORS
from sim.events import EventLog
from sim.fleet import Fleet, simulate_fleet


@click.command(cls=SectionedCommand)
@trace_options
@preset_option
@click.option(
    "--stream", is_flag=True, help="read TRACE as the run goes on, for traces of any length; large files are"
)
@click.option("--requests", type=click.IntRange(1), help="stream so many requests of a generated TRACE")
@click.option(
    "--allocator", "allocators", multiple=True, help=f"{' | '.join(ALLOCATORS)}; repeat it to compare"
)
@config_options(skip=("allocator",))
@fleet_options
@click.option("--step-by-step", is_flag=True, help="run every step by itself: slower, with the same report")
@output_options
def simulate(
    allocators: tuple[str, ...],
    check: bool,
    step_by_step: bool,
    stream: bool,
    requests: int | None,
    **options: Any,
) -> None:
    """Simulate TRACE and report memory, waste and latency.

    Ctrl-C ends the run after its present step, and what it did until then is reported as a run is.
    """
    output = Output.take(options)
    choice, seed = take_choice(options), options.get("seed") or 0
    fleet = take_fleet(options)
    configs = make_configs(allocators or ("paged",), options)
    for config in configs:
        (fleet or Fleet()).check_with(config)
    with listening() as interrupt:
        if stream or requests is not None or is_streamed(choice, output, configs):
            looks = {"--check": check, "--step-by-step": step_by_step, "--replicas": fleet is not None}
            refuse_with_stream(output, [name for name, given in looks.items() if given])
            output.show(simulate_streamed(choice, requests, seed, configs, output, interrupt))
        else:
            looks = {"check": check, "step_by_step": step_by_step}
            simulate_whole(choice.read(seed), configs, fleet, output, interrupt, **looks)
    interrupt.end("the report says what was done")


def simulate_whole(
    trace: Trace,
    configs: list[Config],
    fleet: Fleet | None,
    output: Output,
    interrupt: Interrupt,
    *,
    check: bool,
    step_by_step: bool,
) -> None:
    """A run for each config, with all that was asked to be written."""
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
                    trace, config, fleet, logs=logs, check=check, on_step=each_step(on_progress),
                    is_over=interrupt,
                )  # fmt: skip
            else:
                log = EventLog() if keeps_log else logs[0]
                run = simulate_trace(
                    trace, config, log=log, check=check, step_by_step=step_by_step, on_progress=on_progress,
                    is_over=interrupt,
                )  # fmt: skip
            runs.append(run)
        if interrupt.came:
            break
    output.write(runs, traces=recorder.traces)


def can_be_played(trace: Trace) -> bool:
    """Whether the report's player could show the run: longer logs are not kept for it."""
    return sum(request.output for request in trace) < MAX_EVENTS // 2
