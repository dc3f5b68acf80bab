"""After a step: what its chunks stored and emitted, which drafts hold, who forks, which beams go on."""

from sim.alloc import KVAllocator
from sim.batch import Batch, Chunk
from sim.beam import BeamModel
from sim.config import Config
from sim.events import Sink
from sim.narrate import Narrator
from sim.request import SequenceGroup
from sim.speculate import DraftModel
from sim.work import Work


class Progress:
    """Books executed batches, and counts the work in them."""

    def __init__(self, config: Config, allocator: KVAllocator, log: Sink) -> None:
        self.work = Work()
        self.drafts = DraftModel(config.speculate, config.acceptance, config.seed)
        self._allocator = allocator
        self._log = log
        self._say = Narrator(log)
        self._beams = BeamModel(config.seed)
        self._must_settle = config.speculate > 0 or not config.horizon.is_total

    def advance(self, batch: Batch) -> None:
        """Moves every sequence of the batch on by its chunk."""
        for chunk in batch.chunks:
            self._store(chunk)
        for group in {chunk.group: None for chunk in batch.chunks if chunk.emits}:
            if group.first_token_s is None:
                group.first_token_s = self._log.time
            self._branch(group)

    def _store(self, chunk: Chunk) -> None:
        sequence = chunk.sequence
        accepted = self._accepted(chunk) if chunk.num_drafts else 0
        sequence.stored = chunk.context - chunk.num_drafts + accepted
        sequence.emitted += accepted + chunk.emits
        self._count(chunk, accepted)
        if accepted < chunk.num_drafts:
            self._say.rollback(chunk, accepted)
        self._say.progress(chunk, accepted)
        if self._must_settle:
            self._allocator.settle(sequence, chunk.start, was_prefilling=chunk.is_prefill)

    def _accepted(self, chunk: Chunk) -> int:
        """Drafts that hold: as the model said that verified them, else by the schedule's own chance."""
        if chunk.group.num_accepted is not None:
            return chunk.group.num_accepted
        # What follows the end token is not accepted, whatever was proposed.
        return min(self.drafts.accept(chunk.sequence, chunk.num_drafts), chunk.sequence.num_left - 1)

    def _count(self, chunk: Chunk, accepted: int) -> None:
        work, sequence = self.work, chunk.sequence
        work.computed += chunk.num_tokens
        if sequence.most_stored > chunk.start:
            work.again += min(sequence.stored, sequence.most_stored) - chunk.start
        sequence.most_stored = max(sequence.most_stored, sequence.stored)
        if not chunk.is_prefill:
            work.decodes += 1
            work.emitted_by_decodes += accepted + 1
            work.drafted += chunk.num_drafts
            work.accepted += accepted

    def _branch(self, group: SequenceGroup) -> None:
        """After a group's tokens are out: its first fork, or the choice of the beams that go on."""
        first = group.sequences[0]
        if not group.is_forked:
            for sequence in group.sequences[1:]:
                sequence.stored = sequence.most_stored = first.stored
                sequence.emitted, sequence.input_tokens = 1, first.input_tokens
            group.is_forked = True
            self._allocator.fork(group)
        elif group.request.beam > 1 and not group.is_finished:
            chosen = group.beam_parents
            self._allocator.reorder(group, self._beams.parents(group) if chosen is None else chosen)
            group.beam_parents = None
