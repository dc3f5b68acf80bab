"""Drafts for speculative decoding: what they are, and those of an oracle.

oracle       for a trace (`measure`, `compare`): right exactly as often as the schedule says, so that a
             simulation and an execution can be compared
ngram        for a text (`generate`): see `engine.ngram`
early-exit   for a text: see `engine.early_exit`

Whoever proposes, one forward pass of the whole model verifies all drafts of a step (`engine.verify`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from sim.batch import Chunk
from sim.config import Config
from sim.request import Sequence
from sim.speculate import DraftModel


@dataclass(slots=True)
class Draft:
    """Tokens proposed for one sequence, and what they were drawn from.

    `probabilities` float64 [n, vocab], rows sum to 1; None: nothing was drawn.
    """

    tokens: list[int]
    probabilities: Tensor | None = None


class Drafter(Protocol):
    """Proposes drafts."""

    follows_schedule: bool  # whether the schedule says how many will hold, or the model that verifies them

    def num_ready(self, sequence: Sequence) -> int | None:
        """How many it has for the sequence's next step; None: as many as are asked for."""
        ...

    def propose(self, chunks: list[Chunk]) -> list[Draft]:
        """`num_drafts` tokens for each chunk, whose slots are reserved."""
        ...


class OracleDrafts:
    """Proposes drafts out of `emitted`, the tokens of a plain greedy run, by sequence.

    How many of a step will be confirmed is drawn by the schedule (`sim.speculate.DraftModel`). The first ones
    repeat what was emitted, then one is wrong on purpose. That the model really confirms the first and
    refuses the other is not assumed: a run in which it says otherwise than the schedule stops.
    """

    follows_schedule = True

    def __init__(self, config: Config, emitted: Mapping[str, list[int]]) -> None:
        self._schedule = DraftModel(config.speculate, config.acceptance, config.seed)
        self._emitted = emitted
        self._vocab = config.spec.vocab

    def num_ready(self, sequence: Sequence) -> int | None:
        """See `Drafter`."""
        return None

    def propose(self, chunks: list[Chunk]) -> list[Draft]:
        """See `Drafter`."""
        return [Draft(self.draft(chunk)) for chunk in chunks]

    def draft(self, chunk: Chunk) -> list[int]:
        """`num_drafts` tokens, of which the model will confirm as many as the schedule draws."""
        sequence, count = chunk.sequence, chunk.num_drafts
        num_right = self._schedule.accept(sequence, count)
        truth = self._emitted[sequence.name][sequence.emitted : sequence.emitted + count]
        wrong = [(token + 1) % self._vocab for token in truth[num_right:]]
        beyond_end = [0] * (count - len(truth))
        return truth[:num_right] + wrong + beyond_end
