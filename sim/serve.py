"""The loop: arrivals, schedule, execute, complete. The only place where time passes."""

from collections import deque
from collections.abc import Callable

from sim.batch import Batch, Executor
from sim.clock import step_ps, to_ps, to_s
from sim.config import Config
from sim.events import EventLog, Kind, NullLog, Sink
from sim.leap import can_leap, leap
from sim.ledger import take_ledger
from sim.outcomes import Outcomes
from sim.request import SequenceGroup
from sim.run import Run
from sim.scheduler import Scheduler
from sim.series import Row, Series
from sim.timing import TimingModel, make_timing
from sim.trace import Trace

OnStep = Callable[[Row, int], None]  # the step's row, and how many requests have ended
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
    check: bool = False,
    step_by_step: bool = False,
    on_step: OnStep | None = None,
    on_progress: OnProgress | None = None,
) -> Run:
    """Simulates `trace` under `config` and returns the finished run.

    `record=False` keeps no events (the report stays the same); `check=True` verifies the allocator's
    books after every step. Where nobody looks at the steps (none of `record`, `check`, `on_step`) and
    `can_leap` knows the rules in force, quiet steps are leapt over (`sim.leap`), with the same report and
    series; `step_by_step=True` forbids that. `on_progress` is called now and then.
    Raises InputError when the config cannot work.
    """
    config = config or Config()
    timing = make_timing(config)
    if not (record or check or step_by_step or on_step) and can_leap(trace, config):
        return leap(trace, config, timing, on_progress)
    log = EventLog() if record else NullLog()
    executor = SimulatedExecutor(timing)
    if on_progress:
        on_step = _on_each_step(on_progress, on_step)
    return serve(
        trace, config, executor, log, source="simulated", clock="modelled", check=check, on_step=on_step
    )


def serve(
    trace: Trace,
    config: Config,
    executor: Executor,
    log: Sink,
    *,
    source: str,
    clock: str,
    check: bool = False,
    on_step: OnStep | None = None,
) -> Run:
    """Serves the whole trace with one executor. Idle time is jumped over, never waited for."""
    allocator = config.make_allocator(log)
    scheduler = Scheduler(config, allocator, log)
    groups = [SequenceGroup(request, order) for order, request in enumerate(trace.requests)]
    arriving = deque(groups)
    series = Series()
    now_ps = idle_ps = 0
    num_ended = step = peak_slots = table_bytes = 0

    while arriving or scheduler.has_work:
        if not scheduler.has_work and (arrival_ps := to_ps(arriving[0].request.arrival_s)) > now_ps:
            idle_ps += arrival_ps - now_ps
            now_ps = arrival_ps
        log.step, log.time = step + 1, to_s(now_ps)
        while arriving and to_ps(arriving[0].request.arrival_s) <= now_ps:
            newcomer = arriving.popleft()
            scheduler.arrive(newcomer)
            num_ended += newcomer.reject_reason is not None
        if not scheduler.has_work:
            continue

        step += 1
        batch = scheduler.schedule(step, log.time)
        assert batch.chunks, f"step {step} runs nothing: waiting {len(scheduler.waiting)}, all memory free"
        duration_ps = step_ps(executor.execute(batch))
        now_ps += duration_ps
        log.time = to_s(now_ps)
        scheduler.advance(batch)
        row = _row(scheduler, batch, log.time, duration_ps)
        series.add(row)
        _announce_step(log, row)
        peak_slots = max(peak_slots, allocator.num_slots - allocator.num_free_slots)
        table_bytes = max(table_bytes, allocator.table_bytes())
        num_ended += len(scheduler.retire())
        if check:
            allocator.check()
        if on_step:
            on_step(row, num_ended)

    return Run(
        trace=trace,
        config=config,
        source=source,
        clock=clock,
        outcomes=Outcomes.of(groups),
        groups=groups,
        series=series,
        log=log,
        time_s=to_s(now_ps),
        idle_s=to_s(idle_ps),
        num_preemptions=scheduler.num_preemptions,
        num_lost_tokens=scheduler.num_lost_tokens,
        traffic=allocator.traffic,
        peak_slots=peak_slots,
        table_bytes=table_bytes,
        free_at_end=allocator.num_free_slots,
    )


def _on_each_step(on_progress: OnProgress, on_step: OnStep | None) -> OnStep:
    def both(row: Row, num_ended: int) -> None:
        on_progress(num_ended)
        if on_step:
            on_step(row, num_ended)

    return both


def _row(scheduler: Scheduler, batch: Batch, time: float, duration_ps: int) -> Row:
    return Row(
        step=batch.step,
        time=time,
        duration_ps=duration_ps,
        batch=len(batch.chunks),
        tokens=batch.num_tokens,
        running=len(scheduler.running),
        waiting=len(scheduler.waiting),
        swapped=len(scheduler.swapped),
        ledger=take_ledger(scheduler),
    )


def _announce_step(log: Sink, row: Row) -> None:
    ledger = row.ledger
    log.emit(
        Kind.STEP,
        None,
        f"{row.batch} sequences ran {row.tokens} tokens; {ledger.live} of {ledger.pool} slots live",
        duration=to_s(row.duration_ps),
        tokens=row.tokens,
        batch=row.batch,
        running=row.running,
        waiting=row.waiting,
        swapped=row.swapped,
        ledger={name: getattr(ledger, name) for name in ledger.__slots__},
    )
