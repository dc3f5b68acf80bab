"""Drafts for speculative decoding that are right exactly as often as the schedule says.

How many drafts of a step the model will confirm is decided by the schedule (`sim.speculate.DraftModel`, a
seeded chance), so that a simulation and an execution can be compared. A draft model of its own would be right
when it happens to be. So the drafts here come from an oracle: the same trace was decoded plainly before,
and of `n` drafts the first ones repeat what it emitted, then one is wrong on purpose. That the model really
confirms the first and refuses the other is not assumed: one forward pass verifies all of them, and a run in
which it says otherwise than the schedule stops.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from sim.batch import Chunk
from sim.config import Config
from sim.speculate import DraftModel


class OracleDrafts:
    """Proposes drafts out of `emitted`, the tokens of a plain greedy run, by sequence."""

    def __init__(self, config: Config, emitted: Mapping[str, list[int]]) -> None:
        self._schedule = DraftModel(config.speculate, config.acceptance, config.seed)
        self._emitted = emitted
        self._vocab = config.spec.vocab

    def propose(self, chunk: Chunk) -> list[int]:
        """`num_drafts` tokens, of which the model will confirm as many as the schedule draws."""
        sequence, count = chunk.sequence, chunk.num_drafts
        num_right = self._schedule.accept(sequence, count)
        truth = self._emitted[sequence.name][sequence.emitted : sequence.emitted + count]
        wrong = [(token + 1) % self._vocab for token in truth[num_right:]]
        beyond_end = [0] * (count - len(truth))
        return truth[:num_right] + wrong + beyond_end


def confirmed(logits: Tensor, drafts: list[int], most: int) -> list[int]:
    """What the step emits: the drafts up to the first that greedy decoding would not have said, `most` at
    most, and the model's own token after them. `logits` is [drafts + 1, vocab]."""
    said = torch.argmax(logits, dim=-1).tolist()
    num_right = next((i for i, draft in enumerate(drafts[:most]) if draft != said[i]), min(len(drafts), most))
    return said[: num_right + 1]
