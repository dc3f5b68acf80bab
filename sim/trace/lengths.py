"""How long prompts and outputs are. Each law draws the two independently of each other.

Independence is an assumption: in conversations the two lengths are paired.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sim.errors import InputError
from sim.trace.fields import MAX_TOKENS

Tokens = NDArray[np.int64]
Knots = tuple[tuple[float, float], ...]  # (probability, tokens), both ascending, from 0 to 1


class Lengths(Protocol):
    """Draws token counts of at least 1. The same generator state gives the same counts."""

    def draw(self, num_requests: int, rng: np.random.Generator) -> tuple[Tokens, Tokens]:
        """Prompts and outputs, `[num_requests]` each."""
        ...


def _whole(values: NDArray[np.float64]) -> Tokens:
    return np.clip(np.rint(values), 1, MAX_TOKENS).astype(np.int64)


def _inverse(knots: Knots, probabilities: NDArray[np.float64]) -> Tokens:
    curve = np.asarray(knots, np.float64)  # [num_knots, 2]
    return _whole(np.interp(probabilities, curve[:, 0], curve[:, 1]))


def _range(what: str, low: int, high: int) -> None:
    if not 1 <= low <= high <= MAX_TOKENS:
        raise InputError(f"{what} {low} to {high}: must be 1 <= low <= high <= {MAX_TOKENS} tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed:
    """Every request the same."""

    prompt: int
    output: int

    def __post_init__(self) -> None:
        _range("prompt", self.prompt, self.prompt)
        _range("output", self.output, self.output)

    def draw(self, num_requests: int, rng: np.random.Generator) -> tuple[Tokens, Tokens]:
        """As `Lengths` says."""
        return np.full(num_requests, self.prompt, np.int64), np.full(num_requests, self.output, np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Uniform:
    """Every whole number from low to high, both included, equally often."""

    prompt: tuple[int, int]
    output: tuple[int, int]

    def __post_init__(self) -> None:
        _range("prompt", *self.prompt)
        _range("output", *self.output)

    def draw(self, num_requests: int, rng: np.random.Generator) -> tuple[Tokens, Tokens]:
        """As `Lengths` says."""
        prompts, outputs = (
            rng.integers(low, high, num_requests, endpoint=True) for low, high in (self.prompt, self.output)
        )
        return prompts, outputs


@dataclass(frozen=True, slots=True, kw_only=True)
class LogNormal:
    """`(median, sigma)` of the logarithm, cut at `most`: few very long ones among many short."""

    prompt: tuple[float, float]
    output: tuple[float, float]
    most: int = MAX_TOKENS

    def __post_init__(self) -> None:
        _range("longest", 1, self.most)
        for what, (median, sigma) in (("prompt", self.prompt), ("output", self.output)):
            if not (1 <= median <= MAX_TOKENS and 0 <= sigma <= 10):
                raise InputError(f"{what} median {median}, sigma {sigma}: must be at least 1, and 0 to 10")

    def draw(self, num_requests: int, rng: np.random.Generator) -> tuple[Tokens, Tokens]:
        """As `Lengths` says."""
        prompts, outputs = (
            _whole(np.minimum(median * np.exp(sigma * rng.standard_normal(num_requests)), self.most))
            for median, sigma in (self.prompt, self.output)
        )
        return prompts, outputs


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantiles:
    """A measured distribution: the inverse of its cumulative curve, linear between the knots."""

    prompt: Knots
    output: Knots

    def __post_init__(self) -> None:
        for what, knots in (("prompt", self.prompt), ("output", self.output)):
            probabilities, tokens = (list(column) for column in zip(*knots, strict=True))
            if probabilities[0] != 0 or probabilities[-1] != 1 or tokens[0] < 1:
                raise InputError(f"{what} quantiles: must go from probability 0 to 1, from 1 token or more")
            if sorted(set(probabilities)) != probabilities or sorted(tokens) != tokens:
                raise InputError(f"{what} quantiles: probabilities and tokens must ascend")

    def draw(self, num_requests: int, rng: np.random.Generator) -> tuple[Tokens, Tokens]:
        """As `Lengths` says."""
        prompts, outputs = (_inverse(knots, rng.random(num_requests)) for knots in (self.prompt, self.output))
        return prompts, outputs


@dataclass(frozen=True, slots=True)
class Scaled:
    """Another law's lengths times `factor`, for models and pools that are that much smaller."""

    lengths: Lengths
    factor: float

    def __post_init__(self) -> None:
        if not 0 < self.factor < float("inf"):
            raise InputError(f"length factor {self.factor}: must be above 0 and finite")

    def draw(self, num_requests: int, rng: np.random.Generator) -> tuple[Tokens, Tokens]:
        """As `Lengths` says."""
        prompts, outputs = self.lengths.draw(num_requests, rng)
        return _whole(prompts * np.float64(self.factor)), _whole(outputs * np.float64(self.factor))


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthFilter:
    """Which requests to keep. The defaults are the paper authors' (vLLM 0.1.7, benchmark_serving.py)."""

    min_prompt: int = 4
    min_output: int = 4
    max_prompt: int = 1024
    max_total: int = 2048

    def keeps(self, prompts: Tokens, outputs: Tokens) -> NDArray[np.bool_]:
        """For each pair, whether it stays."""
        return (
            (prompts >= self.min_prompt)
            & (outputs >= self.min_output)
            & (prompts <= self.max_prompt)
            & (prompts + outputs <= self.max_total)
        )


PAPER_FILTER = LengthFilter()
