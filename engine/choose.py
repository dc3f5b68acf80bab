"""The next token of each sequence, where a request has one sequence, several samples, or beams.

one sequence   what the run's rule says: greedy, if not told otherwise
samples        seeded draws by place (request, sample, position), so that siblings differ from the first
               token on and no token depends on the batch, the allocator or a preemption
beams          of a trace: the parents are the schedule's; beam i takes its parent's likeliest token that no
               earlier sibling of the same parent has taken
               of a real model (`Speech`): the search chooses parents and tokens by its scores
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.beams import BeamSearch, Onward
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

    def before_fork(self, emission: Emission) -> None:
        """Called once the step's logits are there, before the schedule books the step."""

    def of_group(self, emission: Emission) -> list[int]:
        """One token for each sequence of a request that has several."""
        if emission.group.request.beam > 1:
            return next_of_beams(emission.logits, emission.parents)
        name, width = emission.group.request.id, len(emission.parents)
        places = [Place(name, index, emission.position) for index in range(width)]
        rows = torch.tensor(emission.parents, device=emission.logits.device)
        return self._sampler.choose(emission.logits[rows], places)

    def note(self, group: SequenceGroup, tokens: list[int]) -> None:
        """Called with what each sequence of a request has emitted, beams excepted."""

    def up_to_end(self, tokens: list[int]) -> list[int]:
        """Of tokens that one sequence emits in one step: those up to an end token, which is the last."""
        return tokens


class Speech(TokenChoice):
    """A real model's choice: its end tokens end requests, and beams are searched by its scores."""

    def __init__(
        self, seed: int, chooser: Chooser, end_ids: frozenset[int], length_penalty: float = 1.0
    ) -> None:
        super().__init__(seed, chooser)
        self.searches: dict[str, BeamSearch] = {}  # by request
        self._end_ids = end_ids
        self._length_penalty = length_penalty
        self._onward: dict[str, Onward] = {}  # of the present step
        self._ended: dict[str, set[int]] = {}  # samples that are through, by request

    def before_fork(self, emission: Emission) -> None:
        """Lets the search say which beams go on, and whether any does."""
        group, request = emission.group, emission.group.request
        if request.beam == 1:
            return
        if request.id not in self.searches:
            self.searches[request.id] = BeamSearch(
                request.beam, request.max_tokens, self._end_ids, self._length_penalty
            )
        onward = self._onward[request.id] = self.searches[request.id].step(emission.logits)
        group.has_ended = onward.is_over
        if group.is_forked and len(emission.logits) > 1:
            group.beam_parents = onward.parents

    def of_group(self, emission: Emission) -> list[int]:
        """See `TokenChoice`."""
        if emission.group.request.beam == 1:
            return super().of_group(emission)
        return self._onward.pop(emission.group.request.id).tokens

    def note(self, group: SequenceGroup, tokens: list[int]) -> None:
        """Ends the request once every sample has emitted an end token; until then all of them run on."""
        ended = self._ended.setdefault(group.request.id, set())
        ended |= {index for index, token in enumerate(tokens) if token in self._end_ids}
        group.has_ended = len(ended) == len(tokens)

    def up_to_end(self, tokens: list[int]) -> list[int]:
        """See `TokenChoice`."""
        end = next((place for place, token in enumerate(tokens) if token in self._end_ids), len(tokens))
        return tokens[: end + 1]


def next_of_beams(logits: Tensor, parents: list[int]) -> list[int]:
    """Of `logits` [beams, vocab], row `parents[i]`: the likeliest token not taken by an earlier sibling."""
    ranks = [parents[:index].count(parent) for index, parent in enumerate(parents)]
    best = logits.topk(max(ranks) + 1, dim=-1).indices.tolist()
    return [best[parent][rank] for parent, rank in zip(parents, ranks, strict=True)]
