"""`measure`: the same trace, scheduler and allocator as the simulator, executed and read from memory."""

from dataclasses import fields, replace
from typing import Any, Literal

from engine.attend import Reading
from engine.choose import TokenChoice
from engine.drafts import OracleDrafts
from engine.executor import TorchExecutor
from engine.exhausted import memory_told
from engine.facts import engine_facts, memory_now, reset_peak
from engine.graphs import DecodeGraphs, make_graphs
from engine.histories import Histories
from engine.holes import Stranding
from engine.measured_run import EngineFault, MeasuredLog, MeasuredRun
from engine.memory_watch import MemoryWatch
from engine.model import LlamaModel
from engine.native import NativeTensors
from engine.physical import Pool
from engine.probe import Probe
from engine.setup import (
    make_dropping,
    make_model,
    make_native,
    make_pool,
    pick_device,
    refuse_backend,
    refuse_impossible,
)
from engine.threads import threads_for
from sim.closed_timing import TimingModel
from sim.config import Config
from sim.errors import InputError, unknown_name
from sim.request import Request
from sim.series import Row, Series
from sim.serve import IsOver, OnStep, serve
from sim.timing import make_timing
from sim.trace.trace import Trace

CLOCKS = ("measured", "modelled")
MEASURED = ("series", "free_at_end")  # read from memory, in place of what the scheduler's books say
WARM_UP = Trace("warm-up", (Request(id="warm-up", arrival_s=0.0, prompt=2, output=2, max_tokens=2),))


@memory_told()
def measure(
    trace: Trace,
    config: Config,
    *,
    backend: str = "auto",
    device: str = "auto",
    clock: Literal["measured", "modelled"] = "measured",
    graphs: str = "auto",
    native: bool = False,
    check: bool = False,
    on_step: OnStep | None = None,
    is_over: IsOver | None = None,
) -> MeasuredRun:
    """Serves `trace` with real tensors and reads ledger and block tables from memory at every step.

    With `native` there is no pool: each sequence has tensors of its own, of the maximum length on the
    schedule of allocator `max`, or lengthened by concatenation on that of `grow` (`engine.native`).

    `graphs` is auto, on or off: whether decode steps are recorded as CUDA graphs (`engine.graphs`).

    Under clock "measured" a step takes what it really took. Under "modelled" the timing model drives the
    schedule, so that admissions fall as in a simulation; the measured seconds stand beside it.
    `is_over` is asked after each step whether to end the run where it is.
    Raises InputError for what cannot be executed or does not fit memory, EngineFault when a step fails.
    """
    if clock not in CLOCKS:
        raise unknown_name("clock", clock, CLOCKS)
    where = pick_device(device)
    refuse_backend(backend, where)
    refuse_impossible(config, where)
    reset_peak(where)
    memory: dict[str, dict[str, Any]] = {"before": memory_now(where)}
    model = make_model(config, where)
    pool = make_native(config, where) if native else make_pool(config, where)
    recorded = make_graphs(graphs, model, backend)
    timing = make_timing(config) if clock == "modelled" else None
    with threads_for(model):
        execute(
            WARM_UP, plain(config), model, pool, backend=backend
        )  # compiles kernels; leaves the pool as it was
        memory["start"] = memory_now(where)
        watch = MemoryWatch(pool, where, memory["start"]) if isinstance(pool, NativeTensors) else None
        run = execute(
            trace,
            config,
            model,
            pool,
            backend=backend,
            drafts=make_drafts(trace, config, model, pool, backend, is_over),
            timing=timing,
            graphs=recorded,
            check=check,
            on_step=both(on_step, watch),
            is_over=is_over,
        )
        memory["end"] = memory_now(where)
        if watch:
            memory["native"] = watch.report(config.allocator)
        run.meta.update(
            measured_s=sum(run.measured_seconds),
            engine=engine_facts(config, model, pool, backend=backend, graphs=recorded),
            memory=memory,
        )
    return run


def both(on_step: OnStep | None, watch: MemoryWatch | None) -> OnStep | None:
    """What the caller wants to hear of each step, and what looks at memory."""
    if watch is None:
        return on_step

    def heard(row: Row, num_ended: int) -> None:
        watch.note(row.ledger)
        if on_step:
            on_step(row, num_ended)

    return heard


def plain(config: Config) -> Config:
    """The same server with one token a decode, and without a cache, so that it leaves an empty pool."""
    return replace(config, speculate=0, accept=None, prefix_cache="off", eviction=None)


def make_drafts(
    trace: Trace,
    config: Config,
    model: LlamaModel,
    pool: Pool,
    backend: str,
    is_over: IsOver | None,
) -> OracleDrafts | None:
    """What proposes drafts, if there are to be any: an oracle, which decodes the trace plainly first.

    Raises KeyboardInterrupt when that `is_over` before its end: nothing has been measured yet.
    """
    if not config.speculate:
        return None
    run = execute(trace, plain(config), model, pool, backend=backend, is_over=is_over)
    if run.is_stopped:
        raise KeyboardInterrupt
    return OracleDrafts(config, run.tokens)


def execute(
    trace: Trace,
    config: Config,
    model: LlamaModel,
    pool: Pool,
    *,
    backend: str = "auto",
    drafts: OracleDrafts | None = None,
    timing: TimingModel | None = None,
    graphs: DecodeGraphs | None = None,
    check: bool = False,
    on_step: OnStep | None = None,
    is_over: IsOver | None = None,
) -> MeasuredRun:
    """Serves `trace` over a pool that is empty before; after too, unless it was over early.

    `timing` None means the measured clock.
    """
    log = MeasuredLog()
    dropping = make_dropping(config, model.device)
    reading = Reading(backend, config.window, config.sinks or 0, dropping.tensor if dropping else None)
    histories = Histories(config.seed, model.spec.vocab, config.speculate)
    requests = {request.id: request for request in trace.requests}
    probe = Probe(pool, requests, Stranding.of(config), num_known=histories.num_known, reading=reading)
    executor = log.executor = TorchExecutor(
        model,
        pool,
        log,
        probe,
        histories=histories,
        choice=TokenChoice(config.seed),
        reading=reading,
        drafts=drafts,
        timing=timing,
        graphs=graphs,
        dropping=dropping,
    )
    series = Series()

    def on_measured_step(row: Row, num_ended: int) -> None:
        row = replace(row, ledger=executor.last_ledger)
        series.add(row)
        if on_step:
            on_step(row, num_ended)

    clock = "modelled" if timing else "measured"
    try:
        run = serve(
            trace,
            config,
            executor,
            log,
            source="measured",
            clock=clock,
            check=check,
            on_step=on_measured_step,
            is_over=is_over,
        )
        executor.settle()
    except (AssertionError, IndexError, RuntimeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise EngineFault(log.step, executor.observations, error) from error
    kept = {field.name: getattr(run, field.name) for field in fields(run) if field.name not in MEASURED}
    return MeasuredRun(
        **kept,
        series=series,
        free_at_end=probe.count_free(),
        tokens=histories.emitted,
        observations=executor.observations,
        min_margin=executor.min_margin,
    )
