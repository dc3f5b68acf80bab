"""`pagelab measure`: one trace, really executed, its memory read from the pool itself."""

from collections.abc import Callable
from typing import Any

import click

from app.help import SectionedCommand
from app.options import config_options, make_configs, output_options, take_trace, trace_options
from app.output import Output, each_step, progress
from app.recording import AnyRun
from engine.measure import measure as measure_trace
from sim.alloc import ALLOCATORS

ENGINE_DEFAULTS = {"model": "tiny", "kv_dtype": "fp32", "hardware": "laptop"}


def engine_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds what only the engine needs to know."""
    for option in (
        click.option("--device", default="auto", show_default=True, help="auto | cpu | cuda"),
        click.option(
            "--backend", default="auto", show_default=True, help="attention: auto | triton | cpu | torch"
        ),
    ):
        command = option(command)
    return command


@click.command(cls=SectionedCommand, short_help="execute a trace with real tensors and measure its memory")
@trace_options
@click.option(
    "--allocator", "allocators", multiple=True, help=f"{' | '.join(ALLOCATORS)}; repeat it to compare"
)
@config_options(skip=("allocator", "tensor_parallel"))  # the engine runs on one device
@engine_options
@click.option(
    "--clock", default="measured", show_default=True, help="what drives the schedule: measured | modelled"
)
@output_options
def measure(
    allocators: tuple[str, ...], backend: str, device: str, clock: Any, check: bool, **options: Any
) -> None:
    """Execute TRACE with real tensors; model, dtype and hardware default to tiny, fp32 and laptop."""
    output = Output.take(options)
    trace = take_trace(options)
    configs = make_configs(allocators or ("paged",), options, **ENGINE_DEFAULTS)
    runs: list[AnyRun] = []
    for config in configs:
        with progress(
            f"measure {config.allocator}", trace.num_requests, shown=output.shows_progress
        ) as on_progress:
            runs.append(
                measure_trace(
                    trace,
                    config,
                    backend=backend,
                    device=device,
                    clock=clock,
                    check=check,
                    on_step=each_step(on_progress),
                )
            )
    output.write(runs)
