"""Who runs: sequences that decode, and at most one whose prefill is not finished, the youngest."""

from bisect import insort

from sim.config import Config
from sim.leap.clock import Load
from sim.leap.decoding import Decoding
from sim.leap.journal import Journal
from sim.leap.memory import LeapMemory
from sim.leap.waiting import Waiting
from sim.request import Request


class Running:
    """What happens to running and swapped sequences within a step, and what the step costs (`load`)."""

    def __init__(
        self, requests: list[Request], config: Config, memory: LeapMemory, journal: Journal, waiting: Waiting
    ) -> None:
        self.max_count = 1 if config.batching == "sequential" else config.max_seqs
        self.budget = config.token_budget  # tokens of a step
        self.load = Load()
        self.count = 0
        self.num_ended = 0
        self.num_lost_tokens = 0  # stored tokens that recomputation has to compute again
        self.swapped: list[int] = []  # oldest first
        self.prefilling: int | None = None  # the one whose prefill is not finished
        self.prefilled = self.num_input = 0  # its tokens stored, and to be stored
        self._prompt = [request.prompt for request in requests]
        self._final = [request.final_tokens for request in requests]
        self.num_emitted = [0] * len(requests)  # when it last stopped running
        self._swaps = config.preempt == "swap"
        self.memory = memory
        self._journal = journal
        self._waiting = waiting
        self.decoding = Decoding(self._final)

    def emitted(self, index: int, stored: int) -> int:
        """Tokens out of a sequence that decodes, with `stored` tokens."""
        return stored - self._prompt[index] + 1

    def num_pending(self, index: int) -> int:
        """The input of a waiting request."""
        return self._prompt[index] + self.num_emitted[index]

    def go_on(self) -> bool:
        """All sequences store their next tokens; False where some had to be preempted for it."""
        memory, decoding = self.memory, self.decoding
        needed = memory.growth(decoding.rounds)
        has_room = self.prefilling is None and needed <= memory.free
        if not has_room:
            needed, has_room = self._make_room()
        memory.free -= needed
        self.load.start(decoding.count, decoding.sum_stored)
        decoding.run(1)
        if self.prefilling is not None:
            self._prefill_on(self.prefilling)
        return has_room

    def enter(self, index: int, num_tokens: int, num_pending: int) -> None:
        """A waiting request runs: its prefill, or the first chunk of it."""
        if self._journal.preemptions[index]:
            self._journal.later_prefills.append((index, num_pending))
        self.count += 1
        self.load.add(0, num_tokens)
        if num_tokens == num_pending:
            self._start_decoding(index, num_tokens, num_pending)
        else:
            self.prefilling, self.prefilled, self.num_input = index, num_tokens, num_pending
            self._journal.open(index, num_tokens, num_tokens)

    def resume(self) -> bool:
        """Brings swapped sequences back while they fit; whether there were any."""
        came = False
        while self.swapped and self.count < self.max_count and self.load.tokens < self.budget:
            index = self.swapped[0]
            stored = self._prompt[index] + self.num_emitted[index] - 1
            blocks = self.memory.swap_in(stored)
            if not blocks:
                break
            self.swapped.pop(0)
            self.count += 1
            self.load.add(stored, 1)
            self.load.swapped += blocks
            self._journal.swapped_in.append(self._journal.num_steps)
            self._start_decoding(index, 1, stored + 1)
            came = True
        return came

    def retire(self) -> None:
        """Lets those leave whose last token is out."""
        while (index := self.decoding.pop_ended()) is not None:
            self._leave(index, self._final[index])
            self._journal.finish_steps[index] = self._journal.num_steps - 1
            self.num_ended += 1

    def _start_decoding(self, index: int, num_tokens: int, stored: int) -> None:
        """From the next round on. This step stores `num_tokens` of its `stored` tokens."""
        self._journal.open(index, num_tokens, stored)
        if not self.num_emitted[index]:
            self._journal.first_token_steps[index] = self._journal.num_steps
        self.memory.start_decoding(self.decoding.start(index, stored))

    def _prefill_on(self, index: int) -> None:
        """The next chunk of an unfinished prefill."""
        num_tokens = self._chunk_tokens()
        self.load.add(self.prefilled, num_tokens)
        self.prefilled += num_tokens
        if self.prefilled == self.num_input:
            self.prefilling = None
            self._start_decoding(index, num_tokens, self.prefilled)
        else:
            self._journal.open(index, num_tokens, self.prefilled)

    def _chunk_tokens(self) -> int:
        """Nobody younger runs, so the rest of the budget is for the unfinished prefill."""
        return min(self.num_input - self.prefilled, self.budget - self.decoding.count)

    # Preemption

    def _make_room(self) -> tuple[int, bool]:
        """What running sequences need for their next tokens, and whether that was there.

        If not, the youngest are preempted until the rest can go on. Asking one by one, oldest first, comes to
        the same: who got a slot is not preempted any more, and each that is preempted frees what it needs.
        """
        memory, rounds = self.memory, self.decoding.rounds
        needed = memory.growth(rounds)
        has_room = True
        if self.prefilling is not None:
            chunk_needs = memory.extend(self.prefilled, self._chunk_tokens())
            if needed + chunk_needs <= memory.free:
                needed += chunk_needs
            else:
                self._preempt_prefill(self.prefilling)
                has_room = False
        while needed > memory.free:
            self._preempt_youngest()
            needed = memory.growth(rounds)
            has_room = False
        return needed, has_room

    def _preempt_prefill(self, index: int) -> None:
        self.prefilling = None
        self.count -= 1
        self.memory.release(index, self.prefilled)
        self._recompute(index, self.prefilled)

    def _preempt_youngest(self) -> None:
        index, stored = self.decoding.pop_youngest()
        self.num_emitted[index] = self.emitted(index, stored)
        self._leave(index, stored)
        blocks = self.memory.swap_out(stored) if self._swaps else 0
        if blocks:
            self.load.swapped += blocks
            self._journal.preemptions[index] += 1
            self._journal.swapped_out.append(self._journal.num_steps)
            insort(self.swapped, index)
        else:
            self._recompute(index, stored)

    def _recompute(self, index: int, stored: int) -> None:
        self.num_lost_tokens += stored
        self._journal.preemptions[index] += 1
        self._journal.recomputed.append(self._journal.num_steps)
        self._waiting.push_front(index)

    def _leave(self, index: int, stored: int) -> None:
        """A decoding sequence runs no longer; it has `stored` tokens."""
        self.count -= 1
        self._journal.close(index)
        self.memory.stop_decoding(self.decoding.stop(index, stored))
        self.memory.release(index, stored)
