"""Who runs in the next step: DESIGN section 3, which is vLLM v1's policy.

    waiting   arrived, holding nothing: new requests and, in front of them, recomputed ones
    running   holding memory, oldest request first
    swapped   preempted to host memory, oldest first

Neither this file nor an allocator other than the Oracle and Pow2 baselines reads `Request.output`;
that a sequence has ended is learned, as from a real model, once its last token is out.
"""

from bisect import insort
from collections import deque
from operator import attrgetter

from sim.alloc import Granted, KVAllocator, Short
from sim.batch import Batch, Chunk
from sim.config import Config
from sim.events import Kind, Sink
from sim.request import Sequence

by_age = attrgetter("order")


class Scheduler:
    """Decides admission, batching and preemption; asks `allocator` for every slot."""

    def __init__(self, config: Config, allocator: KVAllocator, log: Sink) -> None:
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []
        self.swapped: list[Sequence] = []
        self.allocator = allocator
        self.num_preemptions = 0
        self._config = config
        self._log = log
        self._max_seqs = 1 if config.batching == "sequential" else config.max_seqs
        self._is_filling = True  # static batching: the present batch still takes members

    @property
    def has_work(self) -> bool:
        return bool(self.running or self.waiting or self.swapped)

    def arrive(self, sequence: Sequence) -> None:
        """Queues a sequence, or rejects it when it could never run."""
        request = sequence.request
        self._log.emit(
            Kind.ARRIVE,
            request.id,
            f"prompt of {request.prompt} tokens, at most {request.max_tokens} to emit",
            prompt=request.prompt,
            max_tokens=request.max_tokens,
        )
        refusal = self._why_never(sequence)
        if refusal is None:
            self.waiting.append(sequence)
            return
        why, limit = refusal
        sequence.reject_reason = why
        self._log.emit(Kind.REJECT, request.id, why, needed=limit.needed, available=limit.available)

    def schedule(self, step: int, time: float) -> Batch:
        """The batch of the step that starts now, its memory reserved."""
        batch = Batch(step, time)
        swapped_before = self.allocator.traffic.swapped_blocks
        self._fill(batch)
        batch.num_swapped_blocks = self.allocator.traffic.swapped_blocks - swapped_before
        return batch

    def advance(self, batch: Batch) -> None:
        """Books what the executed batch stored and emitted."""
        for chunk in batch.chunks:
            sequence = chunk.sequence
            sequence.stored += chunk.num_tokens
            sequence.emitted += chunk.emits
            if chunk.emits and sequence.first_token_s is None:
                sequence.first_token_s = self._log.time
            self._report(chunk)

    def retire(self) -> list[Sequence]:
        """Lets sequences that emitted their last token leave; returns them."""
        finished = [sequence for sequence in self.running if sequence.is_finished]
        if not finished:
            return finished
        self.running = [sequence for sequence in self.running if not sequence.is_finished]
        for sequence in finished:
            sequence.finish_s = self._log.time
            request = sequence.request
            self._log.emit(
                Kind.FINISH,
                request.id,
                f"emitted all its {sequence.emitted} tokens",
                emitted=sequence.emitted,
            )
            self.allocator.release(sequence, "finished")
        return finished

    def _fill(self, batch: Batch) -> None:
        if self._config.step_rule == "prefill-first":
            self._admit(batch)
            if batch.chunks:
                return
        if self._advance_running(batch):  # nobody was preempted
            self._resume_swapped(batch)
            if self._config.step_rule == "mixed":
                self._admit(batch)

    def _why_never(self, sequence: Sequence) -> tuple[str, Short] | None:
        request, config = sequence.request, self._config
        worst = request.worst_case_tokens
        if short := self.allocator.never_fits(request):
            return (
                f"needs {short.needed} {self.allocator.unit} at worst, the pool can give {short.available}",
                short,
            )
        if worst > config.max_len:
            return f"needs {worst} tokens at worst, the maximum length is {config.max_len}", Short(
                worst, config.max_len
            )
        budget = config.token_budget
        if worst > budget and not config.chunked_prefill:
            return f"needs {worst} tokens in one step at worst, the budget is {budget}", Short(worst, budget)
        return None

    # A step's token budget is what the batch has not used yet.

    def _budget_left(self, batch: Batch) -> int:
        return self._config.token_budget - batch.num_tokens

    def _advance_running(self, batch: Batch) -> bool:
        """Reserves the next tokens of running sequences, oldest first; False when it had to preempt."""
        budget = self._budget_left(batch)
        nobody_preempted = True
        index = 0
        while index < len(self.running) and budget > 0:
            sequence = self.running[index]
            num_tokens = min(sequence.num_pending, budget)
            match self.allocator.grow(sequence, num_tokens):
                case Granted():
                    self._run(batch, sequence, num_tokens)
                    budget -= num_tokens
                    index += 1
                case Short() as short:
                    # The victim comes from the end of the list: `sequence` itself at the latest.
                    self._preempt_youngest(sequence, short)
                    nobody_preempted = False
        return nobody_preempted

    def _preempt_youngest(self, needy: Sequence, short: Short) -> None:
        victim = self.running.pop()
        unit = self.allocator.unit
        cause = (
            f"{needy.request.id} needs {short.needed} {unit}, {short.available} free; "
            f"request {victim.request.id} arrived last"
        )
        victim.preemptions += 1
        self.num_preemptions += 1
        is_swapped = self._config.preempt == "swap" and self._swap_out(victim, cause)
        if is_swapped:
            return
        if self._config.preempt == "swap":
            cause += "; host memory is full, so it is recomputed"
        self._announce_preemption(victim, "recompute", cause)
        self.allocator.release(victim, f"preempted: {victim.stored} tokens will be prefilled again")
        victim.stored = 0
        victim.input_tokens = 0
        self.waiting.appendleft(victim)

    def _swap_out(self, victim: Sequence, cause: str) -> bool:
        if not self.allocator.host_has_room(victim):
            return False
        self._announce_preemption(victim, "swap", cause)
        self.allocator.swap_out(victim, f"{victim.stored} stored tokens move to host memory")
        insort(self.swapped, victim, key=by_age)
        return True

    def _resume_swapped(self, batch: Batch) -> None:
        budget = self._budget_left(batch)
        while self.swapped and budget > 0 and len(self.running) < self._max_seqs:
            sequence = self.swapped[0]
            num_tokens = min(sequence.num_pending, budget)
            answer = self.allocator.swap_in(
                sequence, num_tokens, "oldest swapped request, and its blocks fit again"
            )
            if isinstance(answer, Short):
                return
            self.swapped.pop(0)
            insort(self.running, sequence, key=by_age)
            self._run(batch, sequence, num_tokens)
            budget -= num_tokens

    def _admit(self, batch: Batch) -> None:
        if self.swapped or not self._may_admit():
            return
        budget = self._budget_left(batch)
        while self.waiting and budget > 0 and len(self.running) < self._max_seqs:
            sequence = self.waiting[0]
            num_tokens = sequence.num_pending
            if self._config.chunked_prefill:
                num_tokens = min(num_tokens, budget)
            if num_tokens > budget:
                return
            sequence.input_tokens = sequence.num_pending
            answer = self.allocator.admit(sequence, num_tokens, keep_watermark=bool(self.running))
            if isinstance(answer, Short):
                sequence.input_tokens = 0
                break
            self.waiting.popleft()
            insort(self.running, sequence, key=by_age)
            sequence.prefills.append(sequence.input_tokens)
            self._announce_admission(sequence, num_tokens, budget)
            self._run(batch, sequence, num_tokens)
            budget -= num_tokens
        # A static batch goes on filling only while a spent budget, and nothing else, keeps requests out.
        self._is_filling = budget <= 0 and bool(self.waiting) and len(self.running) < self._max_seqs

    def _may_admit(self) -> bool:
        if self._config.batching != "static":
            return True
        if not self.running:
            self._is_filling = True
        return self._is_filling

    def _run(self, batch: Batch, sequence: Sequence, num_tokens: int) -> None:
        batch.chunks.append(
            Chunk(
                sequence,
                start=sequence.stored,
                num_tokens=num_tokens,
                is_prefill=sequence.is_prefilling,
                emits=num_tokens == sequence.num_pending,
            )
        )

    def _announce_admission(self, sequence: Sequence, num_tokens: int, budget: int) -> None:
        again = f", {sequence.emitted} of them emitted before it was preempted" if sequence.emitted else ""
        self._log.emit(
            Kind.ADMIT,
            sequence.request.id,
            f"{sequence.input_tokens} tokens to prefill{again}; {num_tokens} now, of a budget of {budget}",
            tokens=sequence.input_tokens,
        )

    def _announce_preemption(self, victim: Sequence, mode: str, why: str) -> None:
        self._log.emit(
            Kind.PREEMPT, victim.request.id, why, mode=mode, stored=victim.stored, emitted=victim.emitted
        )

    def _report(self, chunk: Chunk) -> None:
        sequence = chunk.sequence
        state = {"stored": sequence.stored, "emitted": sequence.emitted}
        if not chunk.is_prefill:
            self._log.emit(Kind.DECODE, sequence.request.id, f"emits token {sequence.emitted}", **state)
            return
        end = (
            f"emits token {sequence.emitted}"
            if chunk.emits
            else f"{sequence.num_pending} tokens of it remain"
        )
        self._log.emit(
            Kind.PREFILL,
            sequence.request.id,
            f"tokens {chunk.start} to {chunk.context - 1} of its input stored; {end}",
            tokens=chunk.num_tokens,
            **state,
        )
