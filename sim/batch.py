"""The seam between scheduler and executor: what one step runs, and who says how long it took."""

from dataclasses import dataclass, field
from typing import Protocol

from sim.horizon import Horizon, KeepAll, num_pairs, num_read
from sim.request import Sequence, SequenceGroup


@dataclass(frozen=True, slots=True)
class Chunk:
    """`num_tokens` consecutive tokens of one sequence, starting at position `start`.

    The step stores their keys and values in slots that are reserved already. A decode is a chunk of one
    token and, when it speculates, `num_drafts` more. `emits` says whether the step ends with a new token:
    a prefill chunk that leaves some of its input for later emits none.
    """

    group: SequenceGroup
    sequence: Sequence
    start: int
    num_tokens: int
    is_prefill: bool
    emits: bool
    num_drafts: int = 0

    @property
    def context(self) -> int:
        """Tokens of the sequence that precede or belong to the chunk: its last query is at `context - 1`."""
        return self.start + self.num_tokens


@dataclass(slots=True)
class Batch:
    """All that one step executes. `step` counts from 1; `time` is when it starts, in seconds.

    `decodes` are sequences that store their last emitted token and emit the next: each means what a chunk
    of one token would. Only `sim.cohort` fills it, and such batches go to no engine.
    """

    step: int
    time: float
    chunks: list[Chunk] = field(default_factory=list[Chunk])  # changed by `add` and `drop` alone
    decodes: list[Sequence] = field(default_factory=list[Sequence])
    num_tokens: int = 0  # of all of them; kept, because the scheduler asks before each chunk
    num_swapped_blocks: int = 0  # out and in
    num_copied_tokens: int = 0  # from one sequence to another, since the batch before
    num_moved_tokens: int = 0  # of one sequence, to another place
    horizon: Horizon = field(default_factory=KeepAll)
    _decode_context: int = 0  # tokens that attention reads for `decodes`

    def add(self, chunk: Chunk) -> None:
        """One chunk more."""
        self.chunks.append(chunk)
        self.num_tokens += chunk.num_tokens

    def drop(self, group: SequenceGroup) -> None:
        """Takes out what `group` would have run."""
        self.chunks = [chunk for chunk in self.chunks if chunk.group is not group]
        self.num_tokens = len(self.decodes) + sum(chunk.num_tokens for chunk in self.chunks)

    def add_decodes(self, sequences: list[Sequence], num_stored: int) -> None:
        """All of `sequences` decode; they have stored so many tokens together."""
        self.decodes = sequences
        self.num_tokens += len(sequences)
        self._decode_context = len(sequences) + num_stored

    @property
    def num_sequences(self) -> int:
        """Sequences that run."""
        return len(self.decodes) + len(self.chunks)

    @property
    def num_context_tokens(self) -> int:
        """Tokens whose keys and values attention reads, over all chunks."""
        if self.horizon.is_total:
            return self._decode_context + sum(chunk.context for chunk in self.chunks)
        return sum(
            num_read(self.horizon, chunk.start, chunk.num_tokens, is_prefill=chunk.is_prefill)
            for chunk in self.chunks
        )

    @property
    def num_attention_pairs(self) -> int:
        """(query, key) pairs under the causal mask and the horizon, over all chunks."""
        return self._decode_context + sum(
            num_pairs(self.horizon, chunk.start, chunk.num_tokens, is_prefill=chunk.is_prefill)
            for chunk in self.chunks
        )


class Executor(Protocol):
    """Runs batches. The simulator's asks a timing model; the engine's runs kernels and a clock."""

    def execute(self, batch: Batch) -> float:
        """Runs `batch` after the memory events of its step; returns the seconds that it took."""
        ...
