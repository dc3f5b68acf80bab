"""`leap`: from a trace to a finished run, through the leaping server."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from sim.alloc import RESERVATIONS
from sim.clock import to_ps, to_s
from sim.closed_timing import ClosedTiming
from sim.config import Config
from sim.events import NullLog
from sim.leap.carry import in_service
from sim.leap.holdings import PagedSeries, RangeSeries
from sim.leap.memory import Ranges
from sim.leap.series import Ints, LeapSeries, as_ints
from sim.leap.server import LeapServer
from sim.outcomes import Outcomes
from sim.request import Request, SequenceGroup
from sim.run import Run
from sim.scheduler import Scheduler
from sim.server import IsOver
from sim.trace import Trace
from sim.work import Work


def leap(
    trace: Trace,
    config: Config,
    timing: ClosedTiming,
    on_progress: Callable[[int], None] | None = None,
    is_over: IsOver | None = None,
) -> Run:
    """The run that stepping would give, without events. `can_leap` must hold.

    `on_progress` is told now and then how many requests have ended; `is_over` is asked as often whether to
    end the run where it is.
    """
    reasons = reject(trace.requests, config)
    places = [place for place in range(len(trace)) if place not in reasons] if reasons else range(len(trace))
    requests = [trace.requests[place] for place in places]
    arrivals_ps = [to_ps(request.arrival_s) for request in requests]
    server = LeapServer(requests, arrivals_ps, config, timing)
    tell = (lambda: on_progress(len(reasons) + server.running.num_ended)) if on_progress else None
    is_done = server.serve(tell, is_over=is_over)
    if not is_done:
        server.stop()
    elif trace.requests:
        server.wait_until(to_ps(trace.requests[-1].arrival_s))  # which may have been rejected
    if on_progress and is_done:
        on_progress(len(trace))

    series = make_series(server, config, requests)
    num_entries = num_table_entries(config, int(series.running.max(initial=0)))
    return Run(
        trace=trace,
        config=config,
        source="simulated",
        clock="modelled",
        outcomes=make_outcomes(trace, server, series, as_ints(places), reasons),
        series=series,
        log=NullLog(),
        time_s=to_s(server.clock.now_ps()),
        idle_s=to_s(sum(idle_ps for _, idle_ps in server.journal.idle)),
        num_preemptions=sum(server.journal.preemptions),
        work=make_work(server, series),
        traffic=server.memory.traffic,
        peak_slots=series.peak_held,
        table_bytes=4 * num_entries,
        free_at_end=server.memory.free * (config.slots_per_block or 1),
        is_stopped=not is_done,
    )


def reject(requests: Sequence[Request], config: Config) -> dict[int, str]:
    """Why some requests can never run, by their place: in the scheduler's words."""
    worst = np.array([request.worst_case_tokens for request in requests], dtype=np.int64)
    most = min(config.num_slots, config.max_len)
    if not config.chunked_prefill:
        most = min(most, config.token_budget)
    suspects = set(np.flatnonzero(worst > most).tolist())
    log = NullLog()
    if config.allocator in RESERVATIONS:
        never_fits = config.make_allocator(log).never_fits
        suspects.update(place for place, request in enumerate(requests) if never_fits(request))
    if not suspects:
        return {}
    scheduler = Scheduler(config, config.make_allocator(log), log)
    reasons: dict[int, str] = {}
    for place in sorted(suspects):
        group = SequenceGroup(requests[place], place)
        scheduler.arrive(group)
        assert group.reject_reason, f"{group.request.id} can run, and was taken for one that cannot"
        reasons[place] = group.reject_reason
    return reasons


def make_work(server: LeapServer, series: LeapSeries) -> Work:
    """Tokens computed. Everything lost is computed again, since every request finishes."""
    journal, lost = server.journal, server.running.num_lost_tokens
    computed = int(series.column("tokens").sum())
    # A span starts with a prefill or the chunk of one, unless its sequence came back from host memory.
    num_decodes = computed - sum(journal.tokens) + len(journal.swapped_in)
    return Work(computed=computed, lost=lost, again=lost, decodes=num_decodes, emitted_by_decodes=num_decodes)


def num_table_entries(config: Config, num_running: int) -> int:
    """Of so many sequences: a row for the longest there may be, or a range's start and length."""
    return num_running * (2 if config.slots_per_block is None else -(-config.max_len // config.block_size))


def make_series(server: LeapServer, config: Config, requests: list[Request]) -> LeapSeries:
    """The series, to be folded from what the server wrote down."""
    durations = as_ints(server.clock.durations)
    final = as_ints([request.final_tokens for request in requests])
    common = (server.journal, durations, server.arrivals_ps, final, config.num_slots, server.start_ps)
    if isinstance(server.memory, Ranges):
        lengths, rounded = server.memory.lengths, server.memory.placement.rounded
        return RangeSeries(
            *common, lengths=as_ints(lengths), rounded=as_ints([rounded(length) for length in lengths])
        )
    return PagedSeries(*common, block_size=config.block_size)


def make_outcomes(
    trace: Trace, server: LeapServer, series: LeapSeries, places: Ints, reasons: dict[int, str]
) -> Outcomes:
    """What became of each request of the trace; `places` says where the served ones stand in it."""
    journal, ends_s = server.journal, series.column("time")
    has_started, has_ended = progress_of(server, len(places))
    first_token_s, finish_s = np.full((2, len(trace)), np.nan)
    first_token_s[places[has_started]] = ends_s[as_ints(journal.first_token_steps)[has_started]]
    finish_s[places[has_ended]] = ends_s[as_ints(journal.finish_steps)[has_ended]]
    preemptions = np.zeros(len(trace), dtype=np.int64)
    preemptions[places] = journal.preemptions
    emitted = [request.output for request in trace.requests]
    prefills: list[list[int]] = [[request.prompt] for request in trace.requests]
    for index in np.flatnonzero(~has_ended):
        place = int(places[index])
        emitted[place] = server.emitted(int(index))
        if index >= server.waiting.num_taken:
            prefills[place] = []
    for index, num_tokens in journal.later_prefills:
        prefills[int(places[index])].append(num_tokens)
    for place in reasons:
        emitted[place], prefills[place] = 0, []
    return Outcomes(
        requests=trace.requests,
        reject_reasons=reasons,
        first_token_s=first_token_s,
        finish_s=finish_s,
        emitted=emitted,
        preemptions=preemptions.tolist(),
        prefills=prefills,
        hit_tokens=[0] * len(trace),
    )


def progress_of(server: LeapServer, num_requests: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Of each request, whether its first token is out, and its last."""
    has_ended = np.arange(num_requests) < server.waiting.num_taken
    has_ended[in_service(server)] = False
    has_started = has_ended.copy()
    for index in in_service(server):
        has_started[index] = server.emitted(index) > 0
    return has_started, has_ended
