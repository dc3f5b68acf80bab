"""`leap`: from a trace to a finished run, through the leaping server."""

from collections.abc import Callable

import numpy as np

from sim.alloc import RESERVATIONS
from sim.clock import to_ps, to_s
from sim.closed_timing import ClosedTiming
from sim.config import Config
from sim.events import NullLog
from sim.leap.holdings import PagedSeries, RangeSeries
from sim.leap.memory import Ranges
from sim.leap.series import Ints, LeapSeries, as_ints
from sim.leap.server import LeapServer
from sim.outcomes import Outcomes
from sim.request import Request, SequenceGroup
from sim.run import Run
from sim.scheduler import Scheduler
from sim.trace import Trace
from sim.work import Work


def leap(
    trace: Trace, config: Config, timing: ClosedTiming, on_progress: Callable[[int], None] | None = None
) -> Run:
    """The run that stepping would give, without events. `can_leap` must hold.

    `on_progress` is told now and then how many requests have ended.
    """
    reasons = reject(trace, config)
    places = [place for place in range(len(trace)) if place not in reasons] if reasons else range(len(trace))
    requests = [trace.requests[place] for place in places]
    arrivals_ps = [to_ps(request.arrival_s) for request in requests]
    server = LeapServer(requests, arrivals_ps, config, timing)
    server.serve((lambda: on_progress(len(reasons) + server.running.num_ended)) if on_progress else None)
    if trace.requests:
        server.wait_until(to_ps(trace.requests[-1].arrival_s))  # which may have been rejected
    if on_progress:
        on_progress(len(trace))

    series = make_series(server, config, requests, arrivals_ps)
    is_paged = isinstance(series, PagedSeries)
    # A row for the longest sequence, or a range's start and length.
    entries_per_table = -(-config.max_len // config.block_size) if is_paged else 2
    num_entries = entries_per_table * int(series.running.max(initial=0))
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
        free_at_end=server.memory.free * (config.block_size if is_paged else 1),
    )


def reject(trace: Trace, config: Config) -> dict[int, str]:
    """Why some requests can never run, by place in the trace: in the scheduler's words."""
    worst = np.array([request.worst_case_tokens for request in trace.requests], dtype=np.int64)
    most = min(config.num_slots, config.max_len)
    if not config.chunked_prefill:
        most = min(most, config.token_budget)
    suspects = set(np.flatnonzero(worst > most).tolist())
    log = NullLog()
    if config.allocator in RESERVATIONS:
        never_fits = config.make_allocator(log).never_fits
        suspects.update(place for place, request in enumerate(trace.requests) if never_fits(request))
    if not suspects:
        return {}
    scheduler = Scheduler(config, config.make_allocator(log), log)
    reasons: dict[int, str] = {}
    for place in sorted(suspects):
        group = SequenceGroup(trace.requests[place], place)
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


def make_series(
    server: LeapServer, config: Config, requests: list[Request], arrivals_ps: list[int]
) -> LeapSeries:
    """The series, to be folded from what the server wrote down."""
    durations = as_ints(server.clock.durations)
    final = as_ints([request.final_tokens for request in requests])
    common = (server.journal, durations, arrivals_ps, final, config.num_slots)
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
    journal, num_ended = server.journal, server.running.num_ended
    assert num_ended == len(places), f"{num_ended} of {len(places)} requests ended"
    ends_s = series.column("time")
    first_token_s, finish_s = np.full((2, len(trace)), np.nan)
    first_token_s[places] = ends_s[as_ints(journal.first_token_steps)]
    finish_s[places] = ends_s[as_ints(journal.finish_steps)]
    preemptions = np.zeros(len(trace), dtype=np.int64)
    preemptions[places] = journal.preemptions
    emitted = [request.output for request in trace.requests]
    prefills: list[list[int]] = [[request.prompt] for request in trace.requests]
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
