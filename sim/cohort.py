"""The scheduler's rules with the loops of a plain decode step pulled tight, for runs that write events.

In most steps most sequences do one thing: store the token they emitted, emit the next, and need no block.
Such a step moves columns of numbers on (`sim.columns`) instead of making a chunk for each sequence.
`Scheduler` stays as the reference: events and report of both are equal (tests/sim/test_cohort.py).
"""

from dataclasses import fields

from sim.alloc import RESERVATIONS, Granted, KVAllocator, PagedAllocator, Usage
from sim.batch import Batch
from sim.columns import DecodeColumns
from sim.config import Config
from sim.events import Sink
from sim.request import SequenceGroup
from sim.scheduler import Scheduler, by_age
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

    def __init__(self, config: Config, allocator: KVAllocator, log: Sink) -> None:
        super().__init__(config, allocator, log)
        self._columns = DecodeColumns()
        self._newcomers: list[SequenceGroup] = []  # running, and not in the columns yet

    def _advance_running(self, batch: Batch) -> bool:
        self._take_in_newcomers()
        columns = self._columns
        if len(columns) < len(self.running) or len(columns) > self._budget_left(batch):
            self._empty_columns()
            return super()._advance_running(batch)
        nobody_preempted = self._grow_full_ones(batch)
        columns = self._columns
        batch.add_decodes(columns.sequences, int(columns.stored.sum()))
        return nobody_preempted

    def _take_in_newcomers(self) -> None:
        """All that run stand in the columns, or, while one of them is in mid-prefill, not all."""
        num_old = len(self._columns)
        if self._columns.groups != self.running[:num_old]:  # one came back, older than some that run
            self._empty_columns()
            num_old = 0
        new = self.running[num_old:]
        if new and not any(group.sequences[0].is_prefilling for group in new):
            self._columns.add(new)

    def _empty_columns(self) -> None:
        self._columns.write_back()
        self._columns = DecodeColumns()

    def _grow_full_ones(self, batch: Batch) -> bool:
        """A block for each sequence whose last one is full, oldest first; whether nobody was preempted."""
        if not isinstance(self.allocator, PagedAllocator):
            return True  # contiguous ranges never grow
        columns = self._columns
        rows = columns.at_block_end(self.allocator.block_size)
        columns.write_back(rows)
        num_grown = self.allocator.grow_full([columns.sequences[row] for row in rows])
        if num_grown == len(rows):
            return True
        self._empty_columns()
        self._make_room(batch, [columns.groups[row] for row in rows[num_grown:]])
        self._columns.add(self.running[:])
        return False

    def _make_room(self, batch: Batch, groups: list[SequenceGroup]) -> None:
        """As many of `groups` grow as can, oldest first, while the rule's victims are preempted."""
        for group in groups:
            while group in self.running:
                answer = self.allocator.grow(group.sequences[0], 1)
                if isinstance(answer, Granted):
                    break
                self._preempt(batch, self._pick_victim(self.running), needy=group, short=answer)

    def advance(self, batch: Batch) -> None:
        columns, num_decodes = self._columns, len(batch.decodes)
        if num_decodes:
            columns.advance()
            work = self.work
            work.computed += num_decodes
            work.decodes += num_decodes
            work.emitted_by_decodes += num_decodes
            self._log.decodes(columns.sequences, columns.stored.tolist(), columns.emitted.tolist())
        super().advance(batch)
        if len(self._columns) < len(self.running):
            in_columns = set(self._columns.groups)
            self._newcomers = [group for group in self.running if group not in in_columns]
        else:
            self._newcomers = []

    def usage(self) -> Usage:
        if not isinstance(self.allocator, PagedAllocator):
            self._columns.write_back()
            return super().usage()
        old, new = self._columns.usage(self.allocator.block_size), self.allocator.usage(self._newcomers)
        return old + new

    def _num_seqs(self) -> int:
        return len(self.running)

    def _finished(self) -> list[SequenceGroup]:
        ended = self._columns.ended
        rows = ended.nonzero()[0].tolist()
        finished = [self._columns.groups[row] for row in rows]
        finished += [group for group in self._newcomers if group.is_finished]
        if rows:
            self._columns.write_back(rows)
            self._columns.drop(ended)
        return sorted(finished, key=by_age)
