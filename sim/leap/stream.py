"""A trace of any length through the leaping server, with a window of it in memory.

Steps, sums and counts are those of the whole trace served at once, number for number; percentiles are within
`sim.quantiles.RELATIVE_ERROR` of its. What has one entry a request (`per_request`) is not kept.
"""

from collections.abc import Callable, Iterable

import numpy as np

from sim.clock import to_ps, to_s
from sim.closed_timing import ClosedTiming
from sim.config import Config
from sim.errors import InputError
from sim.leap.carry import carry_over, in_service
from sim.leap.cover import why_not_dials, why_not_request
from sim.leap.run import make_series, make_work, num_table_entries, progress_of, reject
from sim.leap.series import LeapSeries, as_ints
from sim.leap.server import LeapServer
from sim.refusals import refuse_request
from sim.report import latencies
from sim.request import Request
from sim.server import IsOver
from sim.timing import make_timing
from sim.totals import StreamedRun, TraceTotals
from sim.work import Work

CANNOT = "a streamed trace needs a run that can leap (sim/leap/cover.py), and this one cannot: {}"
OnProgress = Callable[[int], None]  # how many requests have ended


def simulate_stream(
    name: str,
    pieces: Iterable[list[Request]],
    config: Config | None = None,
    *,
    on_progress: OnProgress | None = None,
    is_over: IsOver | None = None,
) -> StreamedRun:
    """Simulates requests that come in `pieces`, all of them in order of arrival, and keeps none of them.

    `is_over` is asked now and then whether to end the run where it is. Raises InputError for dials that leaps
    do not know (`sim.leap.cover`), and for requests that are out of order.
    """
    config = config or Config()
    timing = make_timing(config)
    why = why_not_dials(config, config.max_seqs)
    if why or not isinstance(timing, ClosedTiming):
        raise InputError(
            f"a streamed trace needs a run that can leap, and this one cannot: {why or 'timing'}"
        )
    stream = Stream(StreamedRun(trace=TraceTotals(name), config=config), timing, on_progress, is_over)
    for piece in pieces:
        stream.put(piece)
        stream.serve(len(stream.requests))
        if stream.is_over:
            break
    else:
        stream.put([])
        stream.serve(None)
    return stream.end()


class Stream:
    """A run in the making. Before and after each window `server` has stopped, and its window is folded."""

    def __init__(
        self, run: StreamedRun, timing: ClosedTiming, on_progress: OnProgress | None, is_over: IsOver | None
    ) -> None:
        self.run = run
        self.requests: list[Request] = []  # those that `server` serves
        self.is_over = False
        self._timing = timing
        self._server = LeapServer([], [], run.config, timing)
        self._first_token_s: list[float] = []  # of those in service, nan where it is to come
        self._to_come_s: list[float] = []  # arrivals of rejected requests, those that lie ahead
        self._on_progress = on_progress
        self._asks = is_over

    def put(self, piece: list[Request]) -> None:
        """The next requests of the trace; those that can never run are counted, and go no further."""
        trace = self.run.trace
        last_s = trace.last_s if trace.num_requests else 0.0
        for request in piece:
            if request.arrival_s < last_s:
                raise InputError(
                    f"request {request.id!r} arrives at {request.arrival_s} s, after one at {last_s} s: a "
                    "streamed trace must be in order of arrival; sort it, or simulate it without --stream"
                )
            last_s = request.arrival_s
            refuse_request(request, self.run.config)
            if why := why_not_request(request):
                raise InputError(CANNOT.format(why))
        trace.add(piece)
        reasons = reject(piece, self.run.config)
        self.run.num_rejected += len(reasons)
        self._to_come_s += [piece[place].arrival_s for place in reasons]
        newcomers = [request for place, request in enumerate(piece) if place not in reasons]
        self._carry_over(newcomers)

    def serve(self, num_known: int | None) -> None:
        """A window: until it would need to know more requests than these, or all of them have ended."""
        server, run = self._server, self.run

        def tell() -> None:
            assert self._on_progress
            self._on_progress(run.num_finished + run.num_rejected + server.running.num_ended)

        is_done = server.serve(tell if self._on_progress else None, is_over=self._asks, num_known=num_known)
        if is_done and run.trace.num_requests:
            server.wait_until(to_ps(run.trace.last_s))  # which may have been rejected
        self.is_over = not is_done and self._asks is not None and self._asks()
        server.stop()
        self._fold()

    def end(self) -> StreamedRun:
        """The run, also where it was stopped."""
        run, server = self.run, self._server
        run.is_stopped = self.is_over
        run.num_arrived = run.trace.num_requests
        if self.is_over:
            to_come = self._to_come_s + [one.arrival_s for one in self.requests[server.waiting.num_taken :]]
            run.num_arrived -= sum(arrival_s > run.time_s for arrival_s in to_come)
        run.num_emitted += sum(server.emitted(index) for index in in_service(server))
        run.traffic = server.memory.traffic
        run.free_at_end = server.memory.free * (run.config.slots_per_block or 1)
        return run

    def _carry_over(self, newcomers: list[Request]) -> None:
        self._server, self.requests, _ = carry_over(
            self._server, self.requests, newcomers, self.run.config, self._timing
        )

    def _fold(self) -> None:
        """Adds up what happened in this window."""
        run, server = self.run, self._server
        series = make_series(server, run.config, self.requests)
        run.add_steps(series, series.peak_held)
        run.work = Work.of_all((run.work, make_work(server, series)))
        entries = num_table_entries(run.config, int(series.running.max(initial=0)))
        run.table_bytes = max(run.table_bytes, 4 * entries)
        run.time_s = to_s(server.clock.now_ps())
        run.idle_ps += sum(idle_ps for _, idle_ps in server.journal.idle)
        run.num_preemptions += len(server.journal.recomputed) + len(server.journal.swapped_out)
        new = self.requests[len(self._first_token_s) : server.waiting.num_taken]
        run.num_prompt_tokens += sum(request.prompt for request in new)
        self._add_requests(series)
        self._to_come_s = [arrival_s for arrival_s in self._to_come_s if arrival_s > run.time_s]

    def _add_requests(self, series: LeapSeries) -> None:
        server, ends_s = self._server, series.column("time")
        has_started, has_ended = progress_of(server, len(self.requests))
        first_token_s, finish_s = np.full((2, len(self.requests)), np.nan)
        before = np.array(self._first_token_s, dtype=np.float64)
        first_token_s[: len(before)] = before
        is_new = has_started & np.isnan(first_token_s)
        first_token_s[is_new] = ends_s[as_ints(server.journal.first_token_steps)[is_new]]
        finish_s[has_ended] = ends_s[as_ints(server.journal.finish_steps)[has_ended]]
        ended = [self.requests[place] for place in np.flatnonzero(has_ended)]
        self.run.num_finished += len(ended)
        self.run.num_emitted += sum(request.output for request in ended)
        self.run.add_latencies(latencies(ended, first_token_s[has_ended], finish_s[has_ended]))
        self._first_token_s = first_token_s[in_service(server)].tolist()
