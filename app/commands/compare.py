"""`pagelab compare`: the same trace simulated and really executed, and whether the two agree."""

from dataclasses import replace
from typing import Any

import click

from app.commands.measure import ENGINE_DEFAULTS, engine_options
from app.help import SectionedCommand
from app.options import config_options, make_configs, output_options, preset_option, take_trace, trace_options
from app.output import Output, each_step, progress
from app.recording import AnyRun
from engine import EngineFault, MeasuredRun, measure
from engine.agreement import agreement, disagreement
from engine.forecast import forecast
from engine.peers import PEERS, serve_with_vllm, vllm_python
from sim import Config, InputError
from sim import simulate as simulate_trace
from sim.alloc import ALLOCATORS
from sim.choices import TIMINGS
from sim.errors import unknown_name

# A step of the tiny model is so short, by the roofline, that no two requests of a trace would ever meet.
DEFAULTS = {**ENGINE_DEFAULTS, "timing": "unit"}
DEFAULT_ALLOCATORS = ("max", "pow2", "oracle", "paged")


@click.command(cls=SectionedCommand, short_help="simulate and execute a trace, and compare the two")
@trace_options
@preset_option
@click.option(
    "--allocator",
    "allocators",
    multiple=True,
    help=f"{' | '.join(ALLOCATORS)}; not given: {', '.join(DEFAULT_ALLOCATORS)}",
)
@config_options(skip=("allocator", "tensor_parallel"))  # the engine runs on one device
@engine_options
@click.option(
    "--with", "peer", default=None, help="serve TRACE with another system as well, on the same weights: vllm"
)
@output_options
def compare(
    allocators: tuple[str, ...], backend: str, device: str, peer: str | None, check: bool, **options: Any
) -> int:
    """Simulate TRACE and execute it with real tensors, on one schedule; exit code 1 when they differ.

    The timing model drives the clock of both sides, so that the same requests meet in the same steps; what
    the steps really took is reported beside it. If not given, a step lasts one second (--timing unit), and
    model, dtype and hardware are tiny, fp32 and laptop.

    With --timing FILE the trace is executed once more, with the clock in charge, and the simulation's
    throughput and latencies are held against that run's.

    With --with vllm, vLLM serves the trace too, on the same weights and slots, beside allocator paged: its
    occupancy is read from its own block pool. PAGELAB_VLLM_PYTHON names the Python that has it.
    """
    if peer is not None:
        if peer not in PEERS:
            raise unknown_name("peer", peer, PEERS)
        vllm_python()  # refuses before anything is run
    output = Output.take(options)
    trace = take_trace(options)
    configs = make_configs(allocators or DEFAULT_ALLOCATORS, options, **DEFAULTS)
    runs: list[AnyRun] = []
    verdicts: list[dict[str, Any]] = []
    forecasts: list[dict[str, Any]] = []
    for config in configs:
        measured: MeasuredRun | EngineFault
        with progress(
            f"measure {config.allocator}", trace.num_requests, shown=output.shows_progress
        ) as on_progress:
            try:
                measured = measure(
                    trace,
                    config,
                    backend=backend,
                    device=device,
                    clock="modelled",
                    check=check,
                    on_step=each_step(on_progress),
                )
            except EngineFault as fault:
                measured = fault
        with progress(
            f"simulate {config.allocator}", trace.num_requests, shown=output.shows_progress
        ) as on_progress:
            simulated = simulate_trace(trace, pool_of(measured, config), check=check, on_progress=on_progress)
        runs.append(simulated)
        if isinstance(measured, EngineFault):
            verdicts.append(disagreement(simulated, measured))
        else:
            runs.append(measured)
            verdicts.append(agreement(simulated, measured))
            if config.timing not in TIMINGS:
                with progress(
                    f"time {config.allocator}", trace.num_requests, shown=output.shows_progress
                ) as on_progress:
                    free = measure(
                        trace, config, backend=backend, device=device, on_step=each_step(on_progress)
                    )
                forecasts.append(forecast(simulated, measured, free))
    peers = [
        serve_with_vllm(trace, run.config, run).report()
        for run in runs
        if peer and isinstance(run, MeasuredRun) and run.config.allocator == "paged"
    ]
    if peer and not peers:
        raise InputError("--with vllm: it is held against --allocator paged; add that")
    output.write(runs, verdicts, forecasts, peers)
    agree = all(row["first_difference"] is None for row in verdicts)
    return 0 if agree else 1


def pool_of(measured: MeasuredRun | EngineFault, config: Config) -> Config:
    """`config` with the pool that the engine really had: two pools of different size prove nothing."""
    if isinstance(measured, EngineFault):
        return config
    num_slots = measured.meta["engine"]["num_slots"]
    if num_slots == config.num_slots:  # pages that hold no whole number of tokens do not give their size back
        return config
    return replace(config, pool_tokens=num_slots, pool_blocks=None, memory=None)
