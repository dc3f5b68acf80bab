"""The next token of each sequence, where a request has one sequence, several samples, or beams.

one sequence   what the run's rule says: greedy, if not told otherwise
samples        seeded draws by place (request, sample, position), so that siblings differ from the first
               token on and no token depends on the batch, the allocator or a preemption
beams          the parents are the schedule's; beam i takes its parent's likeliest token that no
               earlier sibling of the same parent has taken
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.sampling import Chooser, Greedy, Place, Sampling
from sim.request import SequenceGroup


@dataclass(slots=True)
class Emission:
    """A request of several sequences emits one token for each."""

    group: SequenceGroup
    logits: Tensor  # [sequences that ran, vocab]
    position: int  # tokens of each sequence before the new one
    parents: list[int]  # of each sequence, the row of `logits` from which it goes on

    @property
    def names(self) -> list[str]:
        """All sequences of the request."""
        return [sequence.name for sequence in self.group.sequences]


class TokenChoice:
    """Chooses tokens by `chooser`, or greedily; several samples are always drawn."""

    def __init__(self, seed: int, chooser: Chooser | None = None) -> None:
        self.chooser = chooser or Greedy()
        self._sampler = Sampling(seed=seed) if isinstance(self.chooser, Greedy) else self.chooser

    def of_group(self, emission: Emission) -> list[int]:
        """One token for each sequence of a request that has several."""
        if emission.group.request.beam > 1:
            return next_of_beams(emission.logits, emission.parents)
        name, width = emission.group.request.id, len(emission.parents)
        places = [Place(name, index, emission.position) for index in range(width)]
        rows = torch.tensor(emission.parents, device=emission.logits.device)
        return self._sampler.choose(emission.logits[rows], places)


def next_of_beams(logits: Tensor, parents: list[int]) -> list[int]:
    """Of `logits` [beams, vocab], row `parents[i]`: the likeliest token not taken by an earlier sibling."""
    ranks = [parents[:index].count(parent) for index, parent in enumerate(parents)]
    best = logits.topk(max(ranks) + 1, dim=-1).indices.tolist()
    return [best[parent][rank] for parent, rank in zip(parents, ranks, strict=True)]
