"""The loop of `sim.serve` and the rules of `sim.scheduler`, on numbers instead of sequences.

Requests that can run go by their `index`, their place in order of arrival: the smaller the older. Of each
step only what changes is looked at: who ends, who is admitted, who is preempted.

    decoding sequence: stored = offset + rounds     ends after round  rounds + final - stored
"""

from bisect import bisect_right, insort
from collections.abc import Callable
from heapq import heappop, heappush

from sim.config import Config
from sim.leap.clock import MOST, LazyClock
from sim.leap.journal import Journal
from sim.leap.memory import Ranges, make_memory
from sim.request import Request
from sim.timing import TimingModel

ENDED = -1  # `_end_rounds` of a sequence that is not decoding


class LeapServer:
    """Serves requests that can all run. The result is in `journal`, `clock` and `memory`."""

    def __init__(
        self, requests: list[Request], arrivals_ps: list[int], config: Config, timing: TimingModel
    ) -> None:
        self.journal = Journal(len(requests))
        self.clock = LazyClock(timing)
        self.memory = make_memory(config, requests)
        self.num_steps = 0
        self.num_ended = 0
        self.num_lost_tokens = 0  # stored tokens that recomputation has to compute again
        self._requests = requests
        self._arrivals_ps = arrivals_ps
        self._prompt = [request.prompt for request in requests]
        self._final = [request.prompt + request.output - 1 for request in requests]
        self._is_static = config.batching == "static"
        self._is_mixed = config.step_rule == "mixed"
        self._is_chunked = config.chunked_prefill
        self._swaps = config.preempt == "swap"
        self._is_contiguous = isinstance(self.memory, Ranges)
        self._max_seqs = 1 if config.batching == "sequential" else config.max_seqs
        self._budget = config.token_budget
        self._is_filling = True

        # waiting = returned (the last first), then [next_new, num_arrived)
        self._returned: list[int] = []
        self._next_new = 0
        self._num_arrived = 0  # as far as known: more may have, since the clock was last asked
        self._swapped: list[int] = []  # oldest first

        self._rounds = 0
        self._num_running = 0
        self._num_decoding = 0  # of the running ones: all but one whose prefill is not finished
        self._sum_stored = 0  # of decoding sequences
        self._emitted = [0] * len(requests)  # when it last stopped running
        self._offsets = [0] * len(requests)
        self._spans = [0] * len(requests)
        self._end_rounds = [ENDED] * len(requests)
        self._ends: list[int] = []  # heap of end round x number of requests + index; some are out of date
        self._by_age: list[int] = []  # running ones, oldest first, and some that have ended
        self._prefilling: int | None = None  # the one whose prefill is not finished
        self._prefilled = self._input = 0  # its tokens stored, and to be stored

        self._tokens = self._context = self._pairs = self._blocks_swapped = 0  # of the step in the making

    def serve(self, on_progress: Callable[[], None] | None) -> None:
        """Serves all of them; calls `on_progress` now and then."""
        num_turns = 0
        while self._num_running or self._has_work():
            if self._is_mixed or not self._run_prompts():
                self._run_all()
            self._retire()
            num_turns += 1
            if on_progress and num_turns % 1024 == 0:
                on_progress()

    def _has_work(self) -> bool:
        """Whether there is any although nobody runs, after a jump to the next arrival if need be."""
        if self._swapped or self._head() is not None:
            return True
        if self._next_new == len(self._requests):
            return False
        idle_ps = self.clock.idle_until(self._arrivals_ps[self._next_new])
        self.journal.idle.append((self.num_steps, idle_ps))
        return True

    def _head(self) -> int | None:
        """The request at the head of `waiting`."""
        if self._returned:
            return self._returned[-1]
        next_new, arrivals_ps = self._next_new, self._arrivals_ps
        if next_new == self._num_arrived:  # as far as known
            if next_new == len(arrivals_ps) or arrivals_ps[next_new] > (now_ps := self.clock.now_ps()):
                return None
            self._num_arrived = bisect_right(arrivals_ps, now_ps, lo=next_new)
        return next_new

    def _run_prompts(self) -> bool:
        """A step that runs newly admitted prompts only; False if there are none."""
        self._count(0, 0)
        if not self._admit(self._rounds):
            return False
        self.journal.stalls.append(self.num_steps)
        self._finish_step()
        return True

    def _run_all(self) -> None:
        """A step in which running sequences go on, and all those like it that follow."""
        was_short = self._make_room()
        decoding = self._num_decoding
        self._sum_stored += decoding
        self._count(decoding, self._sum_stored)
        is_quiet = not was_short and self._prefilling is None
        if self._prefilling is not None:
            self._prefill_on(self._prefilling)
        if not was_short:
            if self._swapped and self._resume():
                is_quiet = False
            if self._is_mixed and self._admit(self._rounds + 1):
                is_quiet = False
        if is_quiet:
            self._leap(decoding)
        else:
            self._rounds += 1
            self._finish_step()

    def _count(self, tokens: int, context: int) -> None:
        """Starts a step, with what its decodes cost."""
        self._tokens = tokens
        self._context = self._pairs = context

    def _finish_step(self) -> None:
        self._strand()
        self.clock.run(1, self._tokens, self._context, self._pairs, self._blocks_swapped)
        self._blocks_swapped = 0
        self.num_steps += 1

    def _leap(self, decoding: int) -> None:
        """Runs the step in the making, and all that are like it: nobody ends, comes or falls short."""
        rounds = self._rounds
        until_end = min(self._ends[0] // len(self._requests) - rounds, MOST)
        count = 1 + self.memory.fitting_rounds(rounds + 1, decoding, until_end - 1)
        self._strand()
        if self._awaits_arrival():
            arrival_ps = self._arrivals_ps[self._next_new]
            count = self.clock.run_until(arrival_ps, count, decoding, self._sum_stored)
        else:
            self.clock.run(count, decoding, self._sum_stored, self._sum_stored, 0)
        if count > 1:
            self.memory.grow(rounds + 1, count - 1, decoding)
            self._sum_stored += decoding * (count - 1)
        self._rounds = rounds + count
        self.num_steps += count

    def _awaits_arrival(self) -> bool:
        """Whether the next arrival will change something: nobody waits, and only because nobody came."""
        return (
            self._next_new == self._num_arrived
            and self._next_new < len(self._requests)
            and not self._returned
            and not self._swapped
            and self._num_decoding < self._max_seqs
            and self._num_decoding < self._budget
            and (not self._is_static or self._is_filling)
        )

    def _retire(self) -> None:
        """Lets those leave whose last token is out."""
        num_requests, ends, journal = len(self._requests), self._ends, self.journal
        due = (self._rounds + 1) * num_requests
        while ends and ends[0] < due:
            end_round, index = divmod(heappop(ends), num_requests)
            if self._end_rounds[index] == end_round:  # else it was preempted since
                self._leave(index, self._final[index])
                journal.finish_steps[index] = self.num_steps - 1
                self.num_ended += 1

    def _admit(self, rounds_after: int) -> bool:
        """Takes in waiting requests; whether there were any. `Scheduler._admit` says by what rules."""
        if self._swapped or (self._is_static and not self._may_fill()):
            return False
        memory, budget = self.memory, self._budget - self._tokens
        start = budget
        while budget > 0 and self._num_running < self._max_seqs and (index := self._head()) is not None:
            num_pending = self._prompt[index] + self._emitted[index]
            num_tokens = num_pending
            if num_tokens > budget:
                if not self._is_chunked:
                    return budget < start
                num_tokens = budget
            if not memory.admit(index, num_pending, num_tokens, is_busy=self._num_running > 0):
                break
            if self._returned:
                self._returned.pop()
            else:
                self._next_new += 1
            if self.journal.preemptions[index]:
                self.journal.later_prefills.append((index, num_pending))
            self._join(index)
            self._count_chunk(0, num_tokens)
            budget -= num_tokens
            if num_tokens == num_pending:
                self._start_decoding(index, num_tokens, num_pending, rounds_after)
            else:
                self._prefilling, self._prefilled, self._input = index, num_tokens, num_pending
                self.journal.open(index, self.num_steps, num_tokens, num_tokens)
        if self._is_static:
            more = self._head() is not None and self._num_running < self._max_seqs
            self._is_filling = budget <= 0 and more
        return budget < start

    def _may_fill(self) -> bool:
        if not self._num_running:
            self._is_filling = True
        return self._is_filling

    def _prefill_on(self, index: int) -> None:
        """The next chunk of an unfinished prefill. It is the youngest that runs, so nobody comes after it."""
        start = self._prefilled
        num_tokens = self._chunk_tokens()
        self._count_chunk(start, num_tokens)
        self._prefilled += num_tokens
        if self._prefilled == self._input:
            self._prefilling = None
            self._start_decoding(index, num_tokens, self._prefilled, self._rounds + 1)
        else:
            self.journal.open(index, self.num_steps, num_tokens, self._prefilled)

    def _chunk_tokens(self) -> int:
        return min(self._input - self._prefilled, self._budget - self._num_decoding)

    def _count_chunk(self, start: int, num_tokens: int) -> None:
        self._tokens += num_tokens
        self._context += start + num_tokens
        self._pairs += num_tokens * start + num_tokens * (num_tokens + 1) // 2

    def _resume(self) -> bool:
        """Brings swapped sequences back while they fit; whether there were any."""
        start = budget = self._budget - self._tokens
        while self._swapped and budget > 0 and self._num_running < self._max_seqs:
            index = self._swapped[0]
            stored = self._prompt[index] + self._emitted[index] - 1
            blocks = self.memory.swap_in(stored)
            if not blocks:
                break
            self._swapped.pop(0)
            self.journal.swapped_in.append(self.num_steps)
            self._join(index)
            self._count_chunk(stored, 1)
            self._blocks_swapped += blocks
            self._start_decoding(index, 1, stored + 1, self._rounds + 1)
            budget -= 1
        return budget < start

    def _make_room(self) -> bool:
        """Takes what running sequences need for their next tokens; whether somebody was preempted for it.

        The youngest is, until the rest can go on.
        One by one, oldest first, comes to the same: whoever got its slot is not preempted any more, and
        each that is preempted frees at least as much as it needs.
        """
        memory = self.memory
        needed = memory.growth(self._rounds)
        was_short = False
        if self._prefilling is not None:
            chunk_needs = memory.extend(self._prefilled, self._chunk_tokens())
            if needed + chunk_needs <= memory.free:
                needed += chunk_needs
            else:
                self._preempt_youngest()  # the one with the chunk
                was_short = True
        while needed > memory.free:
            self._preempt_youngest()
            needed = memory.growth(self._rounds)
            was_short = True
        memory.free -= needed
        return was_short

    def _preempt_youngest(self) -> None:
        index = self._by_age.pop()
        while self._end_rounds[index] == ENDED and index != self._prefilling:
            index = self._by_age.pop()
        if index == self._prefilling:
            stored = self._prefilled
            self._prefilling = None
            self._num_running -= 1
            self.memory.release(index, stored)
        else:
            stored = self._offsets[index] + self._rounds
            self._emitted[index] = stored - self._prompt[index] + 1
            self._leave(index, stored)
        self.journal.preemptions[index] += 1
        blocks = self.memory.swap_out(stored) if self._swaps else 0
        if blocks:
            self._blocks_swapped += blocks
            insort(self._swapped, index)
            self.journal.swapped_out.append(self.num_steps)
        else:
            self.num_lost_tokens += stored
            self._returned.append(index)
            self.journal.recomputed.append(self.num_steps)

    def _start_decoding(self, index: int, num_tokens: int, stored: int, rounds_after: int) -> None:
        """From the end of this step, which stores `num_tokens` of its `stored` tokens."""
        journal, offset = self.journal, stored - rounds_after
        end_round = self._final[index] - offset
        self._offsets[index] = offset
        self._end_rounds[index] = end_round
        heappush(self._ends, end_round * len(self._requests) + index)
        self._spans[index] = journal.open(index, self.num_steps, num_tokens, stored)
        if not self._emitted[index]:
            journal.first_token_steps[index] = self.num_steps
        self._num_decoding += 1
        self._sum_stored += stored
        self.memory.start_decoding(offset)

    def _leave(self, index: int, stored: int) -> None:
        """A decoding sequence stops running, now that it has `stored` tokens."""
        self._end_rounds[index] = ENDED
        self.journal.ends[self._spans[index]] = self.num_steps
        self._num_running -= 1
        self._num_decoding -= 1
        self._sum_stored -= stored
        self.memory.stop_decoding(self._offsets[index])
        self.memory.release(index, stored)

    def _join(self, index: int) -> None:
        """It runs from now on."""
        self._num_running += 1
        by_age, end_rounds = self._by_age, self._end_rounds
        if len(by_age) > 2 * self._num_running + 256:  # nobody has an unfinished prefill now
            by_age[:] = [one for one in by_age if end_rounds[one] != ENDED]
        if by_age and index < by_age[-1]:
            insort(by_age, index)
        else:
            by_age.append(index)

    def _strand(self) -> None:
        """Notes whether the head of `waiting` is stranded, or would be as soon as there is one."""
        if self._is_contiguous and self._next_new < len(self._requests):
            self.journal.strand(self.num_steps, self.memory.is_stranded(self._next_new))
