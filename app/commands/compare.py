"""`pagelab compare`: the same trace simulated and really executed, and whether the two agree."""

from contextlib import AbstractContextManager
from typing import Any

import click

from app.commands.measure import engine_options
from app.comparison import DEFAULTS, Comparison, compare_with, execute
from app.help import SectionedCommand
from app.interrupt import listening
from app.options import config_options, make_configs, output_options, preset_option, take_trace, trace_options
from app.output import Output, each_step, progress
from app.recording import AnyRun
from app.rejections import refuse_empty
from engine import measure
from engine.forecast import forecast
from engine.peers import PEERS, refuse_vllm, serve_with_vllm, vllm_python
from sim import Config, InputError, Trace
from sim.alloc import ALLOCATORS
from sim.choices import TIMINGS
from sim.errors import unknown_name
from sim.serve import OnProgress

DEFAULT_ALLOCATORS = ("max", "pow2", "oracle", "paged")


@click.command(cls=SectionedCommand)
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

    Ctrl-C ends a run after its present step; what both sides did until then is compared and reported.

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
    if peer:
        served = [config for config in configs if config.allocator == "paged"]
        if not served:
            raise InputError("--with vllm: it is held against --allocator paged; add that")
        for config in served:
            refuse_vllm(trace, config)

    def shown(what: str, config: Config) -> AbstractContextManager[OnProgress | None]:
        return progress(f"{what} {config.allocator}", trace.num_requests, shown=output.shows_progress)

    comparisons: list[Comparison] = []
    forecasts: list[dict[str, Any]] = []
    with listening() as interrupt:
        engine: dict[str, Any] = {"backend": backend, "device": device, "is_over": interrupt}
        for config in configs:
            with shown("measure", config) as on_progress:
                measured = execute(trace, config, check=check, on_step=each_step(on_progress), **engine)
            with shown("simulate", config) as on_progress:
                comparison = compare_with(measured, trace, config, check=check, on_progress=on_progress)
            comparisons.append(comparison)
            if comparison.measured and config.timing not in TIMINGS and not interrupt.came:
                with shown("time", config) as on_progress:
                    free = measure(trace, config, on_step=each_step(on_progress), **engine)
                if not free.is_stopped:
                    forecasts.append(forecast(comparison.simulated, comparison.measured, free))
            if interrupt.came:
                break
        peers, fault = serve_with_peer(trace, comparisons) if peer and not interrupt.came else ([], None)
    runs: list[AnyRun] = [run for comparison in comparisons for run in comparison.runs]
    verdicts = [comparison.verdict for comparison in comparisons]
    output.write(runs, verdicts, forecasts, peers)
    interrupt.end("the report says what was done, and compares both sides")
    if fault:
        raise InputError(f"{fault}; our own runs are reported without it")
    for run in (run for comparison in comparisons for run in comparison.runs):
        refuse_empty(run)  # after the report: what did not run agrees on nothing
    agree = all(row["first_difference"] is None for row in verdicts)
    return 0 if agree else 1


def serve_with_peer(
    trace: Trace, comparisons: list[Comparison]
) -> tuple[list[dict[str, Any]], InputError | None]:
    """What vLLM made of the trace, or why it made nothing: our own runs are not lost for that."""
    ours = [each.measured for each in comparisons if each.measured]
    try:
        paged = [run for run in ours if run.config.allocator == "paged"]
        return [serve_with_vllm(trace, run.config, run).report() for run in paged], None
    except InputError as error:
        return [], error
