"""Drafts of the model's own first layers: a small draft model without weights or a cache of its own
(Zhang et al., "Draft & Verify", arXiv 2309.08168; Elhoushi et al., "LayerSkip", arXiv 2404.16710).

Its keys and values are those of the whole model: the context's stand in the cache already, and those of the
drafts go into slots that the verifying pass writes again, in these layers with the same numbers.
"""

from dataclasses import replace

import torch
from torch import Tensor

from engine.attend import Reading
from engine.drafts import Draft
from engine.flat import flatten
from engine.histories import Histories
from engine.model import LlamaModel
from engine.physical import Pool
from engine.sampling import Chooser, Place, Sampling
from sim.batch import Chunk
from sim.request import Sequence


class EarlyExitDrafts:
    """The first `num_layers`, then the lm head, say what comes next, one token after another.

    All sequences of the step draft together. Greedily, or drawn by the same rule as the model's own tokens.
    """

    follows_schedule = False

    def __init__(
        self,
        model: LlamaModel,
        num_layers: int,
        pool: Pool,
        *,
        histories: Histories,
        chooser: Chooser,
        reading: Reading,
    ) -> None:
        self.num_layers = num_layers
        self._model = model
        self._pool = pool
        self._histories = histories
        self._chooser = chooser
        self._reading = reading

    def num_ready(self, sequence: Sequence) -> int | None:
        """See `Drafter`."""
        return None

    def propose(self, chunks: list[Chunk]) -> list[Draft]:
        """See `Drafter`."""
        drafts = [Draft([]) for _ in chunks]
        for place in range(max(chunk.num_drafts for chunk in chunks)):
            going = [i for i, chunk in enumerate(chunks) if chunk.num_drafts > place]
            ones = [
                replace(chunks[i], start=chunks[i].start + place, num_tokens=1, num_drafts=0) for i in going
            ]
            self._extend([drafts[i] for i in going], ones, self._logits(ones))
            for i in going:
                self._histories.propose(chunks[i].sequence.name, drafts[i].tokens)
        return drafts

    def _logits(self, ones: list[Chunk]) -> Tensor:
        """What the first layers say after chunks of one token each: [n, vocab]."""
        flat = flatten(ones, self._histories.tokens, self._pool.rows, self._pool.device)
        kv = self._pool.bind(flat, self._reading)
        return self._model.forward(flat.token_ids, flat.positions, kv, flat.emitting, self.num_layers)

    def _extend(self, drafts: list[Draft], ones: list[Chunk], logits: Tensor) -> None:
        places = [Place(one.group.request.id, 0, one.context) for one in ones]
        if not isinstance(self._chooser, Sampling):
            for draft, token in zip(drafts, self._chooser.choose(logits, places), strict=True):
                draft.tokens.append(token)
            return
        rows = self._chooser.distribution(logits)
        tokens = self._chooser.draw(rows, places, "draft")
        for draft, token, row in zip(drafts, tokens, rows.unsqueeze(1), strict=True):
            draft.tokens.append(token)
            before = draft.probabilities
            draft.probabilities = row if before is None else torch.cat([before, row])
