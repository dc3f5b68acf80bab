"""`simulate` a trace, or `serve` it with any executor."""

from sim.batch import Batch, Executor
from sim.cohort import CohortScheduler, covers
from sim.config import Config
from sim.events import EventLog, NullLog, Sink
from sim.refusals import refuse_request
from sim.request import SequenceGroup
from sim.run import Run
from sim.scheduler import Scheduler
from sim.server import OnStep, Server
from sim.timing import TimingModel, make_timing
from sim.trace import Trace

__all__ = ["OnStep", "SimulatedExecutor", "serve", "simulate"]


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
) -> Run:
    """Simulates `trace` under `config` and returns the finished run.

    Events are kept in memory, or go to `log` if that is given (`sim.stream.StreamLog` writes them to a file
    as they come), or nowhere with `record=False`; the report stays the same. `check=True` verifies the
    allocator's books after every step. `step_by_step=True` keeps to the scheduler's own loops, the slow
    reference of `sim.cohort`. Raises InputError when the config cannot work.
    """
    config = config or Config()
    if log is None:
        log = EventLog() if record else NullLog()
    executor = SimulatedExecutor(make_timing(config))
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
) -> Run:
    """Serves the whole trace with one executor.

    Raises InputError when a request asks for what the config excludes.
    """
    server = Server(config, executor, log, rules(config, config.make_allocator(log), log), check=check)
    server.on_step = on_step
    for order, request in enumerate(trace.requests):
        refuse_request(request, config)
        server.put(SequenceGroup(request, order))
    server.serve()
    return server.run(trace, source=source, clock=clock)
