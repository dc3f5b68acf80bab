"""`pagelab measure`: one trace, really executed, its memory read from the pool itself."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import click

from app.help import SectionedCommand
from app.interrupt import listening
from app.options import config_options, make_configs, output_options, preset_option, take_trace, trace_options
from app.output import Output, each_step, progress
from engine.measure import MeasuredRun
from engine.measure import measure as measure_trace
from engine.memory_watch import POLICIES
from sim import Config
from sim.alloc import ALLOCATORS

NATIVE = {policy: allocator for allocator, policy in POLICIES.items()}  # whose schedule each follows
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


@click.command(cls=SectionedCommand)
@trace_options
@preset_option
@click.option(
    "--allocator",
    "allocators",
    multiple=True,
    help=f"{' | '.join((*ALLOCATORS, *NATIVE))}; repeat it to compare. The native ones have no pool, but "
    "tensors of each request's own: of the maximum length, or lengthened by concatenation",
)
@config_options(skip=("allocator", "tensor_parallel"))  # the engine runs on one device
@engine_options
@click.option(
    "--clock", default="measured", show_default=True, help="what drives the schedule: measured | modelled"
)
@click.option(
    "--graphs", default="auto", show_default=True, help="CUDA graphs of decode steps: auto | on | off"
)
@output_options
def measure(
    allocators: tuple[str, ...],
    backend: str,
    device: str,
    clock: Any,
    graphs: str,
    check: bool,
    **options: Any,
) -> None:
    """Execute TRACE with real tensors; model, dtype and hardware default to tiny, fp32 and laptop.

    Ctrl-C ends the run after its present step, and what it did until then is reported as a run is.
    """
    output = Output.take(options)
    trace = take_trace(options)
    names = allocators or ("paged",)
    configs = make_configs([NATIVE.get(name, name) for name in names], options, **ENGINE_DEFAULTS)
    measured: list[MeasuredRun] = []
    with listening() as interrupt:
        for name, config in zip(names, configs, strict=True):
            if name in NATIVE:
                config = native_config(config, options)
            with progress(f"measure {name}", trace.num_requests, shown=output.shows_progress) as on_progress:
                run = measure_trace(
                    trace,
                    config,
                    backend=backend,
                    device=device,
                    clock=clock,
                    graphs=graphs,
                    native=name in NATIVE,
                    check=check,
                    on_step=each_step(on_progress),
                    is_over=interrupt,
                )
            measured.append(run)
            if interrupt.came:
                break
    output.write([*measured])
    if not output.as_json and not output.quiet:
        for run in measured:
            if native := run.meta["memory"].get("native"):
                echo_native_memory(native)
    interrupt.end("the report says what was done")


def native_config(config: Config, given: dict[str, Any]) -> Config:
    """The schedule that the framework's own allocator can keep: nothing rounded, one token more at a time."""
    config = config if given.get("placement") else replace(config, placement="first-fit")
    if config.allocator == "grow" and not given.get("growth"):
        config = replace(config, growth="1")
    return config


def echo_native_memory(native: dict[str, Any]) -> None:
    """One line on what the framework's allocator made of the tensors of a native run."""
    click.echo(
        f"{native['policy']}: tensors took {native['tensor_bytes']:,} B at most, {native['live_bytes']:,} B "
        f"of them live; {native['counted_by']} memory grew by {native['framework_bytes']:,} B"
    )
