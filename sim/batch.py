"""The seam between scheduler and executor: what one step runs, and who says how long it took."""

from dataclasses import dataclass, field
from typing import Protocol

from sim.request import Sequence, SequenceGroup


@dataclass(frozen=True, slots=True)
class Chunk:
    """`num_tokens` consecutive tokens of one sequence, starting at position `start`.

    The step stores their keys and values in slots that are reserved already. A decode is a chunk of one
    token. `emits` says whether the step ends with a new token: a prefill chunk that leaves some of
    its input for later emits none.
    """

    group: SequenceGroup
    sequence: Sequence
    start: int
    num_tokens: int
    is_prefill: bool
    emits: bool

    @property
    def context(self) -> int:
        """Tokens in the cache once the chunk is stored: what its last query attends to."""
        return self.start + self.num_tokens


@dataclass(slots=True)
class Batch:
    """All that one step executes. `step` counts from 1; `time` is when it starts, in seconds."""

    step: int
    time: float
    chunks: list[Chunk] = field(default_factory=list[Chunk])
    num_swapped_blocks: int = 0  # out and in
    num_copied_tokens: int = 0

    @property
    def num_tokens(self) -> int:
        return sum(chunk.num_tokens for chunk in self.chunks)

    @property
    def num_context_tokens(self) -> int:
        """Tokens whose keys and values attention reads, over all chunks."""
        return sum(chunk.context for chunk in self.chunks)

    @property
    def num_attention_pairs(self) -> int:
        """(query, key) pairs under the causal mask, over all chunks."""
        return sum(c.num_tokens * c.start + c.num_tokens * (c.num_tokens + 1) // 2 for c in self.chunks)


class Executor(Protocol):
    """Runs batches. The simulator's asks a timing model; the engine's runs kernels and a clock."""

    def execute(self, batch: Batch) -> float:
        """Runs `batch` after the memory events of its step; returns the seconds that it took."""
        ...
