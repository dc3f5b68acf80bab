"""`simulate` a trace, or `serve` it with any executor."""

from collections.abc import Callable

from sim.batch import Batch, Executor
from sim.closed_timing import ClosedTiming, TimingModel
from sim.cohort import CohortScheduler, covers
from sim.config import Config
from sim.events import EventLog, NullLog, Sink
from sim.invariants import Auditor
from sim.leap import can_leap, leap
from sim.refusals import refuse_request
from sim.request import SequenceGroup
from sim.run import Run
from sim.scheduler import Scheduler
from sim.series import Row
from sim.server import IsOver, OnStep, Server
from sim.timing import make_timing
from sim.trace import Trace
from sim.veil import veiled

__all__ = ["IsOver", "OnProgress", "OnStep", "SimulatedExecutor", "serve", "simulate"]

OnProgress = Callable[[int], None]  # how many requests have ended


class SimulatedExecutor:
    """Executes nothing: asks the timing model how long it would have taken."""

    def __init__(self, timing: TimingModel) -> None:
        self._timing = timing

    def execute(self, batch: Batch) -> float:
        return self._timing.seconds(batch)


def simulate(
    trace: Trace,
    config: Config | None = None,
    *,
    record: bool = True,
    log: Sink | None = None,
    check: bool = False,
    step_by_step: bool = False,
    on_step: OnStep | None = None,
    on_progress: OnProgress | None = None,
    is_over: IsOver | None = None,
) -> Run:
    """Simulates `trace` under `config` and returns the finished run.

    Events are kept in memory, or go to `log` if that is given (`sim.stream.StreamLog` writes them to a file
    as they come), or nowhere with `record=False`; the report stays the same. `check=True` holds every event
    against `sim.invariants`, and the allocator's books after every step. Where nobody looks at the steps (no
    events, no `check`, no `on_step`) and `can_leap` knows the rules in force, quiet steps are leapt over
    (`sim.leap`); where events are wanted, plain decodes go through tight loops (`sim.cohort`).
    `step_by_step=True` keeps to the scheduler's own loops, the slow reference of both, with equal report,
    series and events. `on_progress` is called now and then, and as often `is_over` is asked whether to end
    the run where it is: what has not finished by then is `unfinished`.
    Raises InputError when the config cannot work.
    """
    config = config or Config()
    timing = make_timing(config)
    if log is None:
        log = EventLog() if record else NullLog()
    nobody_looks = isinstance(log, NullLog) and not (check or step_by_step or on_step)
    if nobody_looks and isinstance(timing, ClosedTiming) and can_leap(trace, config):
        return leap(trace, config, timing, on_progress, is_over)
    if on_progress:
        on_step = _on_each_step(on_progress, on_step)
    executor = SimulatedExecutor(timing)
    fast = not step_by_step and covers(trace, config)
    return serve(
        trace,
        config,
        executor,
        log,
        source="simulated",
        clock="modelled",
        rules=CohortScheduler if fast else Scheduler,
        check=check,
        on_step=on_step,
        is_over=is_over,
    )


def serve(
    trace: Trace,
    config: Config,
    executor: Executor,
    log: Sink,
    *,
    source: str,
    clock: str,
    rules: type[Scheduler] = Scheduler,
    check: bool = False,
    on_step: OnStep | None = None,
    is_over: IsOver | None = None,
) -> Run:
    """Serves the whole trace with one executor, or until `is_over`, asked after each step, says so.

    Raises InputError when a request asks for what the config excludes.
    """
    server = make_server(trace, config, executor, log, rules, check=check)
    server.on_step = on_step
    for order, request in enumerate(trace.requests):
        refuse_request(request, config)
        server.put(SequenceGroup(veiled(request) if check else request, order))
    server.serve(is_over)
    return server.run(trace, log, source=source, clock=clock)


def make_server(
    trace: Trace, config: Config, executor: Executor, log: Sink, rules: type[Scheduler], *, check: bool
) -> Server:
    """A server with nothing to do yet; with `check` it is held against `sim.invariants` at every event."""
    if not check:
        return Server(config, executor, log, rules(config, config.make_allocator(log), log))
    auditor = Auditor(log, {request.id: request for request in trace.requests}, config.slots_per_block)
    allocator = config.make_allocator(auditor)
    scheduler = rules(config, allocator, auditor)
    auditor.watch(allocator, scheduler)
    return Server(config, executor, auditor, scheduler, check=True)


def _on_each_step(on_progress: OnProgress, on_step: OnStep | None) -> OnStep:
    def both(row: Row, num_ended: int) -> None:
        on_progress(num_ended)
        if on_step:
            on_step(row, num_ended)

    return both
