"""Which token comes next: the most likely one, or a seeded draw.

A draw is made with a number that depends on (seed, request, sequence, position) alone. Who else is in the
batch, where the cache lies, and whether the request was preempted in between change nothing: the same
logits give the same token in every run.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from sim.errors import InputError


class Place(NamedTuple):
    """Where a token will stand."""

    request: str
    sequence: int  # among the samples or beams of the request
    position: int  # tokens of the sequence before it, those of the prompt included


class Chooser(Protocol):
    """A rule for the next token."""

    def choose(self, logits: Tensor, places: Sequence[Place]) -> list[int]:
        """The token id for each row of `logits` [n, vocab]; row i stands for `places[i]`."""
        ...


class Greedy:
    """The most likely token; of equals the one with the lowest id."""

    def choose(self, logits: Tensor, places: Sequence[Place]) -> list[int]:
        """See `Chooser`."""
        return logits.argmax(dim=-1).tolist()


@dataclass(frozen=True, kw_only=True, slots=True)
class Sampling:
    """Draws from softmax(logits / temperature), cut to the `top_k` likeliest and to the nucleus `top_p`.

    The nucleus is the smallest set of likeliest tokens whose probabilities sum to `top_p` (Holtzman et al.,
    arXiv 1904.09751), taken from what `top_k` left, as vLLM and transformers do.
    Raises InputError for values that make no distribution.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.temperature < float("inf"):
            raise InputError(
                f"temperature {self.temperature}: must be above 0; 0 means greedy, which draws nothing"
            )
        if self.top_k is not None and self.top_k < 1:
            raise InputError(f"top k {self.top_k}: must be at least 1; leave it out to keep all")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise InputError(f"top p {self.top_p}: must be above 0 and at most 1; leave it out to keep all")

    def choose(self, logits: Tensor, places: Sequence[Place]) -> list[int]:
        """See `Chooser`."""
        return self.draw(self.probabilities(logits), places) if places else []

    def draw(self, probabilities: Tensor, places: Sequence[Place], purpose: str = "") -> list[int]:
        """A token by each row of `probabilities` [n, vocab], which need not sum to 1.

        Draws for another `purpose` at the same place are independent of one another.
        """
        cumulative = probabilities.cumsum(dim=-1)  # by id: near ties change nothing
        numbers = [uniform(self.seed, place, purpose) for place in places]
        draws = torch.tensor(numbers, dtype=torch.float64, device=cumulative.device)
        targets = draws.unsqueeze(1) * cumulative[:, -1:]
        # The first token whose cumulative sum exceeds the target: never one of probability 0.
        chosen = torch.searchsorted(cumulative, targets, right=True).squeeze(1)
        return chosen.clamp(max=cumulative.shape[1] - 1).tolist()

    def distribution(self, logits: Tensor) -> Tensor:
        """float64 [n, vocab]: `probabilities`, of which each row sums to 1."""
        weights = self.probabilities(logits)
        return weights / weights.sum(dim=-1, keepdim=True)

    def probabilities(self, logits: Tensor) -> Tensor:
        """float64 [n, vocab]: what is drawn from, 0 for tokens that were cut; rows need not sum to 1."""
        scaled = logits.double() / self.temperature
        if self.top_k is not None and self.top_k < scaled.shape[1]:
            least = scaled.topk(self.top_k, dim=-1).values[:, -1:]
            scaled = scaled.masked_fill(scaled < least, -torch.inf)
        probabilities = scaled.softmax(dim=-1)
        if self.top_p is None or self.top_p == 1:
            return probabilities
        ordered, ids = probabilities.sort(dim=-1, descending=True, stable=True)
        is_cut = ordered.cumsum(dim=-1) - ordered >= self.top_p  # what comes before it is a nucleus already
        return probabilities.masked_fill(torch.zeros_like(is_cut).scatter(1, ids, is_cut), 0.0)


def make_chooser(*, temperature: float, top_k: int | None, top_p: float | None, seed: int) -> Chooser:
    """Greedy at temperature 0, else sampling. Raises InputError for what contradicts itself."""
    if temperature != 0:
        return Sampling(temperature=temperature, top_k=top_k, top_p=top_p, seed=seed)
    if top_k is not None or top_p is not None:
        raise InputError(
            "top k or top p at temperature 0: greedy decoding draws nothing; give a temperature such as 0.7"
        )
    return Greedy()


def uniform(seed: int, place: Place, purpose: str = "") -> float:
    """A number in [0, 1) with 53 random bits, the same on every machine."""
    text = f"{seed}{purpose}/{place.sequence}/{place.position}/{place.request}"
    return (int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") >> 11) * 2.0**-53
