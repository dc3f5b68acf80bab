"""Speculative decoding: how many drafts a step proposes, and how many of them the model would have said.

    stored              drafts proposed, K at most
    |  last token  |  d1  |  d2  |  d3  |    written by the step, slots reserved for all of them
                     ok     no     -         d1 is accepted; d2 and d3 are rolled back
                   emits d1 and, in place of d2, the model's own token: accepted + 1

Leviathan et al., "Fast Inference from Transformers via Speculative Decoding", 2022.
"""

from random import Random

from sim.request import Sequence


class DraftModel:
    """Proposes `num_drafts` tokens a step; each is right with chance `acceptance`, if those before it are.

    Seeded by request, so that what one request accepts does not depend on the others.
    """

    def __init__(self, num_drafts: int, acceptance: float, seed: int) -> None:
        self.num_drafts = num_drafts
        self.acceptance = acceptance
        self._seed = seed
        self._random: dict[str, Random] = {}

    def propose(self, sequence: Sequence, budget: int) -> int:
        """Drafts of a sequence that decodes, within a step's `budget` of tokens for it.

        None beyond `max_tokens`: the last token that may be emitted is never stored, and so needs no draft.
        That also keeps every draft within the maximum length, which the worst case was held against.
        """
        room = sequence.request.max_tokens - sequence.emitted - 1
        return max(0, min(self.num_drafts, room, budget - 1))

    def accept(self, sequence: Sequence, num_drafts: int) -> int:
        """How many of the drafts the model confirms before the first that it does not."""
        name = sequence.request.id
        if name not in self._random:
            self._random[name] = Random(f"{self._seed} drafts {name}")
        random = self._random[name]
        for place in range(num_drafts):
            if random.random() >= self.acceptance:
                return place
        return num_drafts
