"""The loop of `sim.serve` and the rules of `sim.scheduler`, at a cost of what changes, not of what runs.

Requests go by their `index`, their place in order of arrival: the smaller the older.
"""

from collections.abc import Callable

from sim.closed_timing import ClosedTiming
from sim.config import Config
from sim.leap.clock import MOST, LazyClock
from sim.leap.journal import Journal
from sim.leap.memory import LeapMemory, Ranges, make_memory
from sim.leap.running import Running
from sim.leap.waiting import Waiting
from sim.request import Request
from sim.server import IsOver

TURNS = 1024  # of the loop, between two looks at what goes on outside


class LeapServer:
    """Serves requests that can all run, and writes down in `journal` and `clock` how that went."""

    def __init__(
        self, requests: list[Request], arrivals_ps: list[int], config: Config, timing: ClosedTiming
    ) -> None:
        self.journal = Journal(len(requests))
        self.clock = LazyClock(timing)
        self.start_ps = 0  # when the first of its steps, or of the idle time before it, begins
        self.memory = make_memory(config, requests)
        self.arrivals_ps = arrivals_ps
        self.waiting = Waiting(arrivals_ps, self.clock)
        self.running = Running(requests, config, self.memory, self.journal, self.waiting)
        self._is_static = config.batching == "static"
        self.is_filling = True  # static batching: the present batch still takes members
        self._is_open = False  # admission was tried, and only found nobody: the next arrival will change that
        self._is_mixed = config.step_rule == "mixed"
        self._is_chunked = config.chunked_prefill
        self._is_contiguous = isinstance(self.memory, Ranges)

    def serve(
        self,
        on_progress: Callable[[], None] | None = None,
        *,
        is_over: IsOver | None = None,
        num_known: int | None = None,
    ) -> bool:
        """Serves all of them, and says so; calls `on_progress` now and then.

        Stops before with False where `is_over`, asked as often, says so, or where the next turn might take in
        a request beyond the first `num_known`.
        """
        running, waiting = self.running, self.waiting
        most_taken = len(self.arrivals_ps) if num_known is None else num_known - running.max_count - 1
        num_turns = 0
        while waiting.num_taken <= most_taken and (running.count or self._has_work()):
            if self._is_mixed or not self._run_prompts():
                self._run_all()
            running.retire()
            num_turns += 1
            if num_turns % TURNS == 0:
                if on_progress:
                    on_progress()
                if is_over and is_over():
                    return False
        return waiting.num_taken <= most_taken

    def emitted(self, index: int) -> int:
        """Tokens out, of a request that has not ended. Exact for those that decode only after `stop`."""
        return self.running.num_emitted[index]

    def use(self, memory: LeapMemory) -> None:
        """Takes this pool, with what is held in it, in place of its own empty one."""
        self.memory = memory
        self.running.memory = memory

    def stop(self) -> None:
        """Ends here: the steps done are all there are, and what runs is left as it is, in the books too."""
        for index, stored in self.running.decoding.members():
            self.journal.close(index)
            self.running.num_emitted[index] = self.running.emitted(index, stored)
        self.clock.now_ps()  # works out how long they took

    def _has_work(self) -> bool:
        """Whether there is any although nobody runs, after a jump to the next arrival if need be."""
        if self.running.swapped or self.waiting.head() is not None:
            return True
        arrival_ps = self.waiting.next_arrival_ps()
        if arrival_ps is None:
            return False
        self.wait_until(arrival_ps)
        return True

    def wait_until(self, time_ps: int) -> None:
        """Lets time pass without work, if `time_ps` is still to come."""
        if (idle_ps := time_ps - self.clock.now_ps()) > 0:
            self.clock.skip(idle_ps)
            self.journal.idle.append((self.journal.num_steps, idle_ps))

    def _run_prompts(self) -> bool:
        """A step that runs newly admitted prompts only; False if there are none."""
        self.running.load.start(0, 0)
        if not self._admit():
            return False
        self.journal.stalls.append(self.journal.num_steps)
        self._finish_step()
        return True

    def _run_all(self) -> None:
        """A step in which running sequences go on, and all those like it that follow."""
        running = self.running
        is_quiet = running.prefilling is None
        if not running.go_on():
            is_quiet = False
        else:
            if running.swapped and running.resume():
                is_quiet = False
            if self._is_mixed and self._admit():
                is_quiet = False
        if is_quiet:
            self._leap()
        else:
            self._finish_step()

    def _finish_step(self) -> None:
        if self._is_contiguous:
            self._strand()
        load = self.running.load
        self.clock.run(load)
        load.swapped = 0
        self.journal.num_steps += 1

    def _leap(self) -> None:
        """Finishes the step in the making, and all that are like it: nobody ends, comes or falls short."""
        decoding, memory, load = self.running.decoding, self.memory, self.running.load
        limit = min(decoding.rounds_to_end(), MOST)
        count = 1 + memory.fitting_rounds(decoding.rounds, decoding.count, limit)
        if self._is_contiguous:
            self._strand()
        arrival_ps = self.waiting.next_arrival_ps() if self._is_open else None
        if arrival_ps is None:
            self.clock.run(load, count)
        else:
            count = self.clock.run_until(arrival_ps, load, count)
        if count > 1:
            memory.grow(decoding.rounds, count - 1, decoding.count)
            decoding.run(count - 1)
        self.journal.num_steps += count

    def _admit(self) -> bool:
        """Takes in waiting requests; whether there were any. `Scheduler._admit` says by what rules."""
        running, waiting = self.running, self.waiting
        self._is_open = False
        if running.swapped or (self._is_static and not self._may_fill()):
            return False
        came = False
        while running.count < running.max_count and (budget := running.budget - running.load.tokens) > 0:
            index = waiting.head()
            if index is None:
                self._is_open = not self._is_static
                break
            num_pending = num_tokens = running.num_pending(index)
            if num_tokens > budget:
                if not self._is_chunked:
                    return came
                num_tokens = budget
            if not self.memory.admit(index, num_pending, num_tokens, is_busy=running.count > 0):
                break
            waiting.pop()
            running.enter(index, num_tokens, num_pending)
            came = True
        if self._is_static:
            is_spent, has_place = running.load.tokens >= running.budget, running.count < running.max_count
            self.is_filling = is_spent and has_place and waiting.head() is not None
        return came

    def _may_fill(self) -> bool:
        if not self.running.count:
            self.is_filling = True
        return self.is_filling

    def _strand(self) -> None:
        """Notes whether the head of `waiting` is stranded, or would be as soon as there is one."""
        head = self.waiting.next_new()  # a contiguous allocator never sends anyone back
        self.journal.strand(head is not None and self.memory.is_stranded(head))
