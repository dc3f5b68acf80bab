"""The scheduler's rules with the loops of a plain decode step pulled tight, for runs that write events.

In most steps most sequences do one thing: store the token they emitted, emit the next, and need no block.
Such a step looks at each of them a few times, in list comprehensions, instead of making a chunk for it.
`Scheduler` stays as the reference: events and report of both are equal (tests/sim/test_cohort.py).
"""

from dataclasses import fields

from sim.alloc import RESERVATIONS, Granted, PagedAllocator, Usage
from sim.batch import Batch
from sim.config import Config
from sim.request import SequenceGroup
from sim.scheduler import Scheduler
from sim.trace import Trace

# Dials under which a decode changes nothing but counts, except at the end of a block. A dial that is not
# named here must stand at its default.
HARMLESS = frozenset({
    "allocator", "placement", "pool_tokens", "pool_blocks", "memory", "block_size", "max_len", "model",
    "kv_dtype", "hardware", "batching", "step_rule", "max_seqs", "max_batch_tokens", "chunked_prefill",
    "watermark", "preempt", "swap_blocks", "victim", "link", "compaction", "table", "timing", "seed",
    "tensor_parallel",
})  # fmt: skip


def covers(trace: Trace, config: Config) -> bool:
    """Whether `CohortScheduler` may serve this run: one sequence a request, nothing shared."""
    return (
        config.allocator in ("paged", *RESERVATIONS)
        and all(getattr(config, f.name) == f.default for f in fields(config) if f.name not in HARMLESS)
        and all(request.width == 1 for request in trace.requests)
    )


class CohortScheduler(Scheduler):
    """Decides what `Scheduler` decides, for runs that `covers` admits."""

    def _advance_running(self, batch: Batch) -> bool:
        sequences = [group.sequences[0] for group in self.running]
        prefilling = [sequence for sequence in sequences if sequence.stored < sequence.input_tokens]
        if prefilling or len(sequences) > self._budget_left(batch):
            return super()._advance_running(batch)
        nobody_preempted = self._grow_full_ones(batch)
        if not nobody_preempted:
            sequences = [group.sequences[0] for group in self.running]
        batch.add_decodes(sequences)
        return nobody_preempted

    def _grow_full_ones(self, batch: Batch) -> bool:
        """A block for each sequence whose last one is full, oldest first; whether nobody was preempted."""
        if not isinstance(self.allocator, PagedAllocator):
            return True  # contiguous ranges never grow
        size, num_preemptions = self.allocator.block_size, self.num_preemptions
        for group in [group for group in self.running if not group.sequences[0].stored % size]:
            while group in self.running:
                answer = self.allocator.grow(group.sequences[0], 1)
                if isinstance(answer, Granted):
                    break
                self._preempt(batch, self._pick_victim(self.running), needy=group, short=answer)
        return self.num_preemptions == num_preemptions

    def advance(self, batch: Batch) -> None:
        for sequence in batch.decodes:
            sequence.stored += 1
            sequence.emitted += 1
            if sequence.stored > sequence.most_stored:
                sequence.most_stored = sequence.stored
        work, num_decodes = self.work, len(batch.decodes)
        work.computed += num_decodes
        work.decodes += num_decodes
        work.emitted_by_decodes += num_decodes
        self._log.decodes(batch.decodes)
        super().advance(batch)

    def usage(self) -> Usage:
        if not isinstance(self.allocator, PagedAllocator):
            return super().usage()
        sequences = [group.sequences[0] for group in self.running]
        requests = [group.request for group in self.running]
        tables, size = self.allocator.tables, self.allocator.block_size
        num_blocks = [len(tables[sequence]) for sequence in sequences]
        final = [request.prompt + request.output - 1 for request in requests]
        live = sum([sequence.stored for sequence in sequences])
        filled = sum(map(min, [count * size for count in num_blocks], final))
        total = sum(num_blocks)
        internal = total * size - filled
        return Usage(live=live, reserved=filled - live, internal=internal, blocks=total, table_entries=total)

    def _num_seqs(self) -> int:
        return len(self.running)

    def retire(self) -> list[SequenceGroup]:
        ended = [group for group in self.running if group.sequences[0].emitted == group.request.output]
        return super().retire() if ended else []
