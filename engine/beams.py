"""Beam search: of all continuations of a request's beams, the likeliest go on.

A beam's value is the sum of its tokens' log-probabilities; a finished one is ranked by that sum over
`length ** length_penalty`, its end token counted. The search is over when as many beams have finished as run
side by side, and the best that still runs could not take a place among them at its present length. These are
the rules of `transformers` (`early_stopping=False`), whose results the tests compare with.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from sim.beam import place_survivors


@dataclass(frozen=True, slots=True)
class Beam:
    """What one beam has emitted. `value` is a sum of log-probabilities, or a finished beam's rank."""

    tokens: tuple[int, ...]
    value: float


@dataclass(frozen=True, slots=True)
class Onward:
    """Where each of the next beams comes from and what it emits; `is_over` when none goes on."""

    parents: list[int]
    tokens: list[int]
    is_over: bool


class BeamSearch:
    """The search of one request: `width` beams of at most `max_tokens` tokens."""

    def __init__(
        self, width: int, max_tokens: int, end_ids: frozenset[int] = frozenset(), length_penalty: float = 1.0
    ) -> None:
        self.finished: list[Beam] = []  # best first, at most `width`
        self._width = width
        self._max_tokens = max_tokens
        self._end_ids = end_ids
        self._length_penalty = length_penalty
        self._running = [Beam((), 0.0)]

    def step(self, logits: Tensor) -> Onward:
        """`logits` [beams, vocab]: one row for each running beam, one in all before the first token."""
        going_on: list[tuple[int, Beam]] = []
        for rank, (parent, beam) in enumerate(self._candidates(logits)):
            if beam.tokens[-1] in self._end_ids or len(beam.tokens) == self._max_tokens:
                if rank < self._width:  # worse ones are there only so that enough can go on
                    self._finish(beam)
            elif len(going_on) < self._width:
                going_on.append((parent, beam))
        if self._is_over(going_on):
            return Onward(list(range(self._width)), [0] * self._width, is_over=True)
        parents = place_survivors([parent for parent, _ in going_on])
        self._running = []
        for parent in parents:  # each place takes the best of its parent's children that is left
            index = next(index for index, (whose, _) in enumerate(going_on) if whose == parent)
            self._running.append(going_on.pop(index)[1])
        return Onward(parents, [beam.tokens[-1] for beam in self._running], is_over=False)

    def _candidates(self, logits: Tensor) -> list[tuple[int, Beam]]:
        """(parent, beam with one token more), likeliest first: enough that `width` of them do not end."""
        so_far = torch.tensor([beam.value for beam in self._running], device=logits.device)
        values = logits.float().log_softmax(dim=-1) + so_far.unsqueeze(1)
        count = min(max(2, 1 + len(self._end_ids)) * self._width, values.numel())
        best = values.flatten().topk(count)
        candidates: list[tuple[int, Beam]] = []
        for value, index in zip(best.values.tolist(), best.indices.tolist(), strict=True):
            parent, token = divmod(index, logits.shape[1])
            candidates.append((parent, Beam((*self._running[parent].tokens, token), value)))
        return candidates

    def _finish(self, beam: Beam) -> None:
        self.finished.append(Beam(beam.tokens, self._rank(beam)))
        self.finished.sort(key=lambda one: -one.value)
        del self.finished[self._width :]

    def _rank(self, beam: Beam) -> float:
        return beam.value / len(beam.tokens) ** self._length_penalty

    def _is_over(self, going_on: list[tuple[int, Beam]]) -> bool:
        if not going_on:
            return True
        best = max(self._rank(beam) for _, beam in going_on)
        return len(self.finished) == self._width and best <= self.finished[-1].value
