"""The clock that all replicas share, and what came of it.

At each instant, in this order: steps that end, replica by replica; arrivals, in the trace's order, each sent
to a replica at once; steps that start, replica by replica. With one replica that is `sim.serve`.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from sim.clock import to_ps
from sim.config import Config
from sim.events import EventLog, NullLog, Sink
from sim.fleet.config import Fleet
from sim.fleet.lending import Market
from sim.fleet.replica import Replica
from sim.fleet.report import report_fleet
from sim.fleet.router import ROUTERS, Router
from sim.request import SequenceGroup
from sim.run import Run
from sim.server import IsOver, OnStep
from sim.trace import Trace
from sim.veil import veiled


@dataclass(kw_only=True)
class FleetRun:
    """What came of serving `trace` with a fleet; `runs[k]` is replica k's run of the requests sent to it.

    `num_loans` counts blocks lent, each time anew; `peak_on_loan` is the most that were lent at once.
    """

    trace: Trace
    config: Config
    fleet: Fleet
    runs: list[Run]
    num_loans: int = 0
    peak_on_loan: int = 0
    is_stopped: bool = False
    source: str = "simulated"
    clock: str = "modelled"

    @cached_property
    def replica_of(self) -> dict[str, int]:
        """Which replica served a request, by id."""
        return {request.id: index for index, run in enumerate(self.runs) for request in run.trace.requests}

    def report(self) -> dict[str, Any]:
        """One entry in the JSON report: all replicas together, and each of them under `replicas`."""
        return report_fleet(self)


def simulate_fleet(
    trace: Trace,
    config: Config | None = None,
    fleet: Fleet | None = None,
    *,
    record: bool = True,
    logs: Sequence[Sink] | None = None,
    check: bool = False,
    on_step: OnStep | None = None,
    is_over: IsOver | None = None,
) -> FleetRun:
    """Simulates `trace` on `fleet.replicas` servers with the dials of `config`.

    Each replica has a log of its own: `logs[k]` if they are given, in memory otherwise, none with
    `record=False`. `on_step` is told of every replica's steps, with all requests ended so far. `is_over`
    is asked at every instant whether to end there; requests still to come are then in no replica's run.
    Raises InputError for dials that do not go together.
    """
    config, fleet = config or Config(), fleet or Fleet()
    fleet.check_with(config)
    if logs is None:
        logs = [EventLog() if record else NullLog() for _ in range(fleet.replicas)]
    assert len(logs) == fleet.replicas, f"{len(logs)} logs for {fleet.replicas} replicas"
    market = Market(fleet.replicas) if fleet.borrow else None
    replicas = [Replica(k, trace, config, log, market, check=check) for k, log in enumerate(logs)]
    if market is not None:
        market.servers = [replica.server for replica in replicas]
    if on_step is not None:
        _report_steps(replicas, on_step)
    requests = map(veiled, trace.requests) if check else trace.requests
    arriving = deque(map(SequenceGroup, requests, range(len(trace))))
    is_stopped = not _serve(replicas, arriving, ROUTERS[fleet.router](config), is_over)
    return FleetRun(
        trace=trace,
        config=config,
        fleet=fleet,
        runs=[_run_of(replica, trace) for replica in replicas],
        num_loans=market.num_loans if market else 0,
        peak_on_loan=market.peak_on_loan if market else 0,
        is_stopped=is_stopped,
    )


def _serve(
    replicas: list[Replica], arriving: deque[SequenceGroup], router: Router, is_over: IsOver | None
) -> bool:
    """Whether all requests have ended."""
    while True:
        instants = [r.server.ends_ps for r in replicas if r.server.ends_ps is not None]
        if arriving:
            instants.append(to_ps(arriving[0].request.arrival_s))
        if not instants:
            return True
        if is_over and is_over():
            return False
        now_ps = min(instants)
        for replica in replicas:
            if replica.server.ends_ps == now_ps:
                replica.complete()
        while arriving and to_ps(arriving[0].request.arrival_s) <= now_ps:
            group = arriving.popleft()
            replicas[router.choose(group.request, [replica.load for replica in replicas])].put(group)
        _begin_all(replicas, now_ps)


def _begin_all(replicas: list[Replica], now_ps: int) -> None:
    """Starts a step wherever one can start.

    A replica may find nothing to run, because its blocks are on loan and it has just given up what it had.
    If that is so everywhere, all blocks are home by now and the next attempt succeeds.
    """
    for _ in range(2):
        for replica in replicas:
            if replica.server.ends_ps is None and replica.server.next_start_ps is not None:
                replica.begin(now_ps)
        if any(replica.server.ends_ps is not None for replica in replicas):
            return
    assert not any(replica.server.scheduler.has_work for replica in replicas), (
        "nothing runs, with all memory free"
    )


def _report_steps(replicas: list[Replica], on_step: OnStep) -> None:
    for replica in replicas:
        replica.server.on_step = lambda row, _: on_step(row, sum(r.server.num_ended for r in replicas))


def _run_of(replica: Replica, trace: Trace) -> Run:
    server = replica.server
    requests = tuple(group.request for group in server.groups)
    run = server.run(replace(trace, requests=requests), replica.log, source="simulated", clock="modelled")
    run.meta["replica"] = replica.index
    return run
