"""Who runs in the next step: DESIGN section 3, which is vLLM v1's policy.

    waiting   arrived, holding nothing: new requests and, in front of them, recomputed ones
    running   holding memory, oldest request first
    swapped   preempted to host memory, oldest first

Neither this file nor an allocator other than the Oracle and Pow2 baselines reads `Request.output`;
that a request has ended is learned, as from a real model, once its last token is out.
"""

from bisect import insort
from collections import deque
from dataclasses import replace
from operator import attrgetter

from sim.alloc import KVAllocator, Short, Traffic, Usage
from sim.batch import Batch, Chunk
from sim.config import Config
from sim.events import Sink
from sim.limits import why_never
from sim.narrate import Narrator
from sim.plan import Plan, plan_step, reserve
from sim.progress import Progress
from sim.request import SequenceGroup
from sim.victims import VICTIMS
from sim.work import Work

by_age = attrgetter("order")


class Scheduler:
    """Decides admission, batching and preemption; asks `allocator` for every slot."""

    def __init__(self, config: Config, allocator: KVAllocator, log: Sink) -> None:
        self.waiting: deque[SequenceGroup] = deque()
        self.running: list[SequenceGroup] = []
        self.swapped: list[SequenceGroup] = []
        self.allocator = allocator
        self.num_preemptions = 0
        self._charged = Traffic()  # what the batches so far have paid for; a fork's copies fall to the next
        self._config = config
        self._say = Narrator(log)
        self._log = log
        self._horizon = config.horizon
        self._progress = Progress(config, allocator, log)
        self._pick_victim = VICTIMS[config.victim].pick
        self._is_filling = True  # static batching: the present batch still takes members

    @property
    def work(self) -> Work:
        """What has been computed so far, and what for."""
        return self._progress.work

    @property
    def has_work(self) -> bool:
        """Whether anything is waiting, running or swapped."""
        return bool(self.running or self.waiting or self.swapped)

    def usage(self) -> Usage:
        """What running requests, which are all that hold memory, hold now."""
        return self.allocator.usage(self.running)

    def arrive(self, group: SequenceGroup) -> None:
        """Queues a request, or rejects it when it could never run."""
        self._say.arrival(group)
        refusal = why_never(group.request, self._config, self.allocator)
        if refusal is None:
            self.waiting.append(group)
            return
        group.reject_reason, limit = refusal
        self._say.rejection(group, group.reject_reason, limit)

    def schedule(self, step: int, time: float) -> Batch:
        """The batch of the step that starts now, its memory reserved."""
        batch = Batch(step, time, horizon=self._horizon)
        self._fill(batch)
        traffic, before = self.allocator.traffic, self._charged
        batch.num_swapped_blocks = traffic.swapped_blocks - before.swapped_blocks
        batch.num_copied_tokens = traffic.copied_tokens - before.copied_tokens
        batch.num_moved_tokens = traffic.moved_tokens - before.moved_tokens
        self._charged = replace(traffic)
        return batch

    def advance(self, batch: Batch) -> None:
        """Books what the executed batch stored and emitted; forks and reorders sequences."""
        self._progress.advance(batch)

    def retire(self) -> list[SequenceGroup]:
        """Lets requests that emitted their last token leave; returns them."""
        finished = self._finished()
        if finished:
            leaving = set(finished)
            self.running = [group for group in self.running if group not in leaving]
        for group in finished:
            group.finish_s = self._log.time
            self._say.finish(group)
            self.allocator.release(group, "finished")
        return finished

    def _finished(self) -> list[SequenceGroup]:
        return [group for group in self.running if group.is_finished]

    def _fill(self, batch: Batch) -> None:
        if self._config.step_rule == "prefill-first":
            self._admit(batch)
            if batch.num_tokens:
                return
        nobody_preempted = self._advance_running(batch)
        # The last one running may be preempted too: a range that cannot move has to start anew. A step that
        # runs nothing would take no time, so what it would admit is admitted now.
        if nobody_preempted or not batch.num_tokens:
            self._resume_swapped(batch)
            if self._config.step_rule == "mixed" or not batch.num_tokens:
                self._admit(batch)

    def _budget_left(self, batch: Batch) -> int:
        return self._config.token_budget - batch.num_tokens

    def _num_seqs(self) -> int:
        return sum(len(group.sequences) for group in self.running)

    # Step 2: running groups reserve their next tokens, oldest first.

    def _advance_running(self, batch: Batch) -> bool:
        """Reserves and schedules; returns whether nobody had to be preempted."""
        nobody_preempted = True
        index = 0
        while index < len(self.running):
            group = self.running[index]
            plan = plan_step(group, self._budget_left(batch), self._progress.drafts)
            if not plan:
                break
            short = reserve(plan, self.allocator)
            if short is None:
                self._run(batch, group, plan)
                index += 1
                continue
            nobody_preempted = False
            victim = self._pick_victim(self.running)
            index -= self.running.index(victim) < index  # it was scheduled already: everyone moves up
            self._preempt(batch, victim, needy=group, short=short)
        return nobody_preempted

    def _preempt(self, batch: Batch, victim: SequenceGroup, *, needy: SequenceGroup, short: Short) -> None:
        self.running.remove(victim)
        batch.drop(victim)
        victim.preemptions += 1
        self.num_preemptions += 1
        why = self._say.shortage(needy, victim, short, self.allocator.unit, self._config.victim)
        if self._config.preempt == "swap":
            if self.allocator.host_has_room(victim):
                self._say.preemption(victim, "swap", why)
                num_stored = sum(sequence.stored for sequence in victim.active)
                self.allocator.swap_out(victim, f"{num_stored} stored tokens move to host memory")
                insort(self.swapped, victim, key=by_age)
                return
            why += "; host memory is full, so it is recomputed"
        self._say.preemption(victim, "recompute", why)
        self._forget(victim)
        self.waiting.appendleft(victim)

    def _forget(self, victim: SequenceGroup) -> None:
        num_stored = self._num_stored(victim)
        self.work.lost += num_stored
        self.allocator.release(victim, f"preempted: {num_stored} stored tokens are given up")
        for sequence in victim.sequences:
            sequence.stored = sequence.input_tokens = 0

    def _num_stored(self, group: SequenceGroup) -> int:
        """Tokens that the group has stored, shared ones once; of one sequence also those dropped since."""
        if len(group.active) == 1:
            return group.active[0].stored
        return self.allocator.usage([group]).live

    # Step 3: swapped groups come back, then waiting ones are admitted, both in order.

    def _resume_swapped(self, batch: Batch) -> None:
        while self.swapped:
            group = self.swapped[0]
            plan = plan_step(group, self._budget_left(batch), self._progress.drafts)
            if not plan or not self._has_place(group):
                return
            given = dict(plan)
            tokens = [given.get(sequence, 0) for sequence in group.active]
            answer = self.allocator.swap_in(group, tokens, "oldest swapped request, and its blocks fit again")
            if isinstance(answer, Short):
                return
            self.swapped.pop(0)
            insort(self.running, group, key=by_age)
            self._run(batch, group, plan)

    def _admit(self, batch: Batch) -> None:
        if self.swapped or not self._may_admit():
            return
        budget = self._budget_left(batch)
        while self.waiting and budget > 0 and self._has_place(self.waiting[0]):
            group = self.waiting[0]
            num_tokens = self.allocator.uncached_tokens(group)
            if num_tokens > budget and not self._config.chunked_prefill:
                return  # a static batch goes on filling only where a spent budget keeps someone out
            answer = self.allocator.admit(group, min(num_tokens, budget), keep_watermark=bool(self.running))
            if isinstance(answer, Short):
                break
            self._enter(batch, group, num_tokens, budget)
            budget = self._budget_left(batch)
        self._is_filling = budget <= 0 and bool(self.waiting) and self._has_place(self.waiting[0])

    def _enter(self, batch: Batch, group: SequenceGroup, num_tokens: int, budget: int) -> None:
        self.waiting.popleft()
        insort(self.running, group, key=by_age)
        if not group.prefills:
            group.hit_tokens = group.sequences[0].stored
        group.prefills.append(num_tokens)
        for sequence in group.active:
            sequence.input_tokens = sequence.stored + sequence.num_pending
        plan = plan_step(group, budget, self._progress.drafts)
        self._say.admission(group, num_tokens, sum(count for _, count in plan), budget)
        short = reserve(plan, self.allocator)
        assert short is None, f"{group.request.id} was admitted without its memory: {short}"
        self._run(batch, group, plan)

    def _has_place(self, group: SequenceGroup) -> bool:
        if self._config.batching == "sequential":
            return not self.running
        return self._num_seqs() + len(group.sequences) <= self._config.max_seqs

    def _may_admit(self) -> bool:
        if self._config.batching != "static":
            return True
        if not self.running:
            self._is_filling = True
        return self._is_filling

    def _run(self, batch: Batch, group: SequenceGroup, plan: Plan) -> None:
        emits = sum(num_tokens for _, num_tokens in plan) >= group.num_pending
        for sequence, num_tokens in plan:
            chunk = Chunk(
                group,
                sequence,
                start=sequence.stored,
                num_tokens=num_tokens,
                is_prefill=sequence.is_prefilling,
                emits=emits,
                num_drafts=max(0, num_tokens - sequence.num_pending),
            )
            batch.add(chunk)
