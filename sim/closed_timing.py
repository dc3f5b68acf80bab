"""What every timing model can be asked: how long one step takes, and how long many do."""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple, Protocol

from sim.batch import Batch


class Totals(NamedTuple):
    """What a step is made of, in the order of `ClosedTiming.cost`: see the properties of `Batch`."""

    tokens: int
    sequences: int
    context: int
    pairs: int
    swapped: int
    copied: int  # or moved

    @classmethod
    def of(cls, batch: Batch) -> "Totals":
        """What `batch` is made of."""
        return cls(
            batch.num_tokens,
            batch.num_sequences,
            batch.num_context_tokens,
            batch.num_attention_pairs,
            batch.num_swapped_blocks,
            batch.num_copied_tokens + batch.num_moved_tokens,
        )


class TimingModel(Protocol):
    """Says how long a batch takes, in seconds."""

    def seconds(self, batch: Batch) -> float:
        """How long `batch` takes."""
        ...


class ClosedTiming(ABC):
    """A timing that depends on the totals of a step alone, so that many steps can be told at once."""

    @abstractmethod
    def cost(
        self, tokens: Any, sequences: Any, context: Any, pairs: Any, swapped: Any = 0, copied: Any = 0
    ) -> Any:
        """How long a step takes that has these `Totals`.

        Each is an integer, or an int64 array [steps] for many steps at once; so is the result, in floats.
        Numbers and arrays go through the same operations in the same order, so both give the same bits.
        """

    @abstractmethod
    def decode_ps(self, num_sequences: int, context: int, count: int) -> list[int]:
        """How long each of `count` steps takes in which the same sequences decode, the first with `context`.

        `step_ps` of its `cost`, but faster than one by one. Never shorter than the step before.
        """

    def seconds(self, batch: Batch) -> float:
        """How long `batch` takes."""
        return self.cost(*Totals.of(batch))
