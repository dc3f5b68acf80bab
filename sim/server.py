"""One server: a scheduler on one allocator, which runs one step after the other on a clock of its own."""

from collections import deque
from collections.abc import Callable

from sim.batch import Batch, Executor
from sim.clock import step_ps, to_ps, to_s
from sim.config import Config
from sim.events import Kind, Sink
from sim.ledger import take_ledger
from sim.outcomes import Outcomes
from sim.request import SequenceGroup
from sim.run import Run
from sim.scheduler import Scheduler
from sim.series import Row, Series
from sim.trace import Trace

OnStep = Callable[[Row, int], None]  # the step's row, and how many requests have ended
IsOver = Callable[[], bool]  # asked now and then: whether somebody wants the run to end here


class Server:
    """Serves the requests put into its inbox in order of arrival.

    now_ps      end of its last step, or of the idle time after it
    [now_ps, ends_ps)   the step that is running, between `begin` and `complete`
    """

    def __init__(
        self, config: Config, executor: Executor, log: Sink, scheduler: Scheduler, *, check: bool = False
    ) -> None:
        self.config = config
        self.log = log
        self.scheduler = scheduler
        self.allocator = scheduler.allocator
        self.groups: list[SequenceGroup] = []  # all that ever came
        self.series = Series()
        self.now_ps = self.idle_ps = 0
        self.ends_ps: int | None = None
        self.num_steps = self.num_ended = 0
        self.is_stopped = False
        self.on_step: OnStep | None = None
        self._executor = executor
        self._check = check
        self._inbox: deque[SequenceGroup] = deque()
        self._batch = Batch(0, 0.0)
        self._peak_slots = self._table_bytes = 0

    def put(self, group: SequenceGroup) -> None:
        """A request for this server; it is taken in by the first step that starts at its arrival or later."""
        self._inbox.append(group)
        self.groups.append(group)

    @property
    def next_start_ps(self) -> int | None:
        """When its next step can start, or None when it has nothing to do."""
        if self.scheduler.has_work:
            return self.now_ps
        return max(self.now_ps, to_ps(self._inbox[0].request.arrival_s)) if self._inbox else None

    def begin(self, now_ps: int) -> bool:
        """Starts a step at `now_ps`; idle until then if it had nothing to do. False if nothing can run.

        Arrivals are taken in and memory is reserved; when the step ends is in `ends_ps`.
        """
        self.idle_ps += now_ps - self.now_ps
        self.now_ps = now_ps
        self.log.step, self.log.time = self.num_steps + 1, to_s(now_ps)
        while self._inbox and to_ps(self._inbox[0].request.arrival_s) <= now_ps:
            newcomer = self._inbox.popleft()
            self.scheduler.arrive(newcomer)
            self.num_ended += newcomer.reject_reason is not None
        if not self.scheduler.has_work:
            return False
        self._batch = self.scheduler.schedule(self.num_steps + 1, self.log.time)
        if not self._batch.num_tokens:
            return False
        self.num_steps += 1
        self.ends_ps = now_ps + step_ps(self._executor.execute(self._batch))
        return True

    def complete(self) -> list[SequenceGroup]:
        """Ends the step that is running: its tokens are out, finished requests leave. Returns those."""
        assert self.ends_ps is not None
        duration_ps, self.now_ps, self.ends_ps = self.ends_ps - self.now_ps, self.ends_ps, None
        self.log.time = to_s(self.now_ps)
        scheduler, allocator = self.scheduler, self.allocator
        scheduler.advance(self._batch)
        row = self._row(duration_ps)
        self.series.add(row)
        self._announce(row)
        self._peak_slots = max(self._peak_slots, allocator.num_slots - allocator.num_free_slots)
        self._table_bytes = max(self._table_bytes, allocator.table_bytes())
        finished = scheduler.retire()
        self.num_ended += len(finished)
        if self._check:
            allocator.check()
        if self.on_step:
            self.on_step(row, self.num_ended)
        return finished

    def serve(self, is_over: IsOver | None = None) -> None:
        """Serves all that is in the inbox. Idle time is jumped over, never waited for."""
        while (start_ps := self.next_start_ps) is not None:
            if is_over and self.num_steps and is_over():
                self.is_stopped = True
                return
            if self.begin(start_ps):
                self.complete()
            else:
                assert not self.scheduler.has_work, "a step runs nothing, with all memory free"

    def run(self, trace: Trace, log: Sink, *, source: str, clock: str) -> Run:
        """What came of it, as the run of `trace`; `log` holds its events."""
        scheduler = self.scheduler
        return Run(
            trace=trace,
            config=self.config,
            source=source,
            clock=clock,
            outcomes=Outcomes.of(self.groups),
            groups=self.groups,
            series=self.series,
            log=log,
            time_s=to_s(self.now_ps),
            idle_s=to_s(self.idle_ps),
            num_preemptions=scheduler.num_preemptions,
            work=scheduler.work,
            traffic=self.allocator.traffic,
            peak_slots=self._peak_slots,
            table_bytes=self._table_bytes,
            free_at_end=self.allocator.num_free_slots,
            is_stopped=self.is_stopped,
        )

    def _row(self, duration_ps: int) -> Row:
        scheduler, batch = self.scheduler, self._batch
        usage = scheduler.usage()
        return Row(
            step=batch.step,
            time=self.log.time,
            duration_ps=duration_ps,
            batch=batch.num_sequences,
            tokens=batch.num_tokens,
            running=len(scheduler.running),
            waiting=len(scheduler.waiting),
            swapped=len(scheduler.swapped),
            ledger=take_ledger(scheduler, usage),
            blocks=usage.blocks,
            table_entries=usage.table_entries,
        )

    def _announce(self, row: Row) -> None:
        ledger = row.ledger
        self.log.emit(
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
