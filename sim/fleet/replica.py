"""One server of a fleet, and what a router may know of it."""

from sim.cohort import CohortScheduler, covers
from sim.config import Config
from sim.events import Sink
from sim.fleet.lending import BorrowingAllocator, LinkExecutor, Market
from sim.fleet.router import promised_tokens
from sim.request import SequenceGroup
from sim.scheduler import Scheduler
from sim.serve import SimulatedExecutor, make_server
from sim.server import Server
from sim.timing import make_timing
from sim.trace import Trace


class Replica:
    """A server whose steps start and end when the fleet's clock says so."""

    def __init__(
        self, index: int, trace: Trace, config: Config, log: Sink, market: Market | None, *, check: bool
    ) -> None:
        timing = make_timing(config)
        if market is None:
            rules = CohortScheduler if covers(trace, config) else Scheduler
            self.server = make_server(trace, config, SimulatedExecutor(timing), log, rules, check=check)
        else:  # whose blocks are not all its own: `sim.invariants` counts those of one pool
            allocator = BorrowingAllocator(config, log, index, market)
            executor = LinkExecutor(config, timing, allocator)
            self.server = Server(config, executor, log, Scheduler(config, allocator, log), check=check)
        self.index = index
        self.log = log
        self.load = 0  # `promised_tokens` of unfinished requests
        self._market = market
        self._new: list[SequenceGroup] = []

    def put(self, group: SequenceGroup) -> None:
        """A request that has just arrived."""
        self.server.put(group)
        self.load += promised_tokens(group.request)
        self._new.append(group)

    def begin(self, now_ps: int) -> bool:
        """Starts a step if it can; see `Server.begin`."""
        started = self.server.begin(now_ps)
        self.load -= sum(promised_tokens(g.request) for g in self._new if g.reject_reason is not None)
        self._new.clear()
        self._settle()
        return started

    def complete(self) -> int:
        """Ends the running step; returns how many requests finished."""
        finished = self.server.complete()
        self.load -= sum(promised_tokens(group.request) for group in finished)
        self._settle()
        return len(finished)

    def _settle(self) -> None:
        if self._market is not None:
            assert isinstance(self.server.allocator, BorrowingAllocator)
            self._market.settle(self.server.allocator)
