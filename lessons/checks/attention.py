"""Lesson 5: attention over blocks that lie anywhere, with a running softmax.

A running softmax is three things: the largest score so far (`top`), the sum of exp(score - top) so far
(`total`), and the values so far, each times its exp(score - top), added up (`sums`, [dim]).
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lessons.checks.core import check
from lessons.pictures import Picture
from lessons.pictures_attention import compared

Vector = NDArray[np.float64]
Running = tuple[float, float, Vector]  # top, total, sums
NOTHING = float("-inf")


def start(dim: int) -> Running:
    """Before the first score."""
    return NOTHING, 0.0, np.zeros(dim)


def fold(running: Running, scores: Vector, values: Vector) -> Running:
    """The running softmax after some more scores [n] with their values [n, dim]; hidden scores are -inf."""
    top, total, sums = running
    new_top = max(top, float(scores.max()))
    if new_top == NOTHING:
        return running
    rescale, weights = np.exp(top - new_top), np.exp(scores - new_top)
    return new_top, float(total * rescale + weights.sum()), sums * rescale + weights @ values


def dense(query: Vector, keys: Vector, values: Vector) -> Vector:
    """Attention of one query [dim] over keys and values [tokens, dim], all scores at once."""
    scores = keys @ query / np.sqrt(len(query))
    weights = np.exp(scores - scores.max())
    return weights @ values / weights.sum()


def gathered(query: Vector, keys: Vector, values: Vector, table: list[int], length: int) -> Vector:
    """The slow way: copy the sequence together, then attend."""
    needed = table[: -(-length // keys.shape[1])]
    return dense(query, np.concatenate(keys[needed])[:length], np.concatenate(values[needed])[:length])


def joined(parts: list[Running]) -> Vector:
    """The attention of a whole sequence from the running softmaxes of its chunks; zeros if all are empty."""
    top = max(part[0] for part in parts)
    if top == NOTHING:
        return np.zeros(len(parts[0][2]))
    shares = [np.exp(part[0] - top) for part in parts]
    total = sum(part[1] * share for part, share in zip(parts, shares, strict=True))
    return sum(part[2] * share for part, share in zip(parts, shares, strict=True)) / total


def scores_and_values(random: np.random.Generator, most: int, spread: float) -> tuple[Vector, Vector]:
    """1 to `most` scores, some of them hidden, with values of dimension 2, in short numbers."""
    count = int(random.integers(1, most + 1))
    scores = (spread * random.standard_normal(count)).round(1)
    scores[random.random(count) < 0.2] = NOTHING
    return scores, random.standard_normal((count, 2)).round(1)


def running_cases(seed: int = 0, count: int = 40) -> Iterator[tuple[Running, Vector, Vector]]:
    """Small scores first; later ones that overflow, and blocks of which all is hidden."""
    random = np.random.default_rng(seed)
    for place in range(count):
        spread = 1.0 if place < count // 2 else 500.0
        before = start(2) if place % 3 == 0 else fold(start(2), *scores_and_values(random, 4, spread))
        yield (before, *scores_and_values(random, 1 + place // 8, spread))


def block_cases(seed: int = 1, count: int = 30) -> Iterator[tuple[Vector, Vector, Vector, list[int], int]]:
    """Sequences whose blocks lie anywhere; NaN wherever nothing of theirs is stored."""
    random = np.random.default_rng(seed)
    for place in range(count):
        size, length = int(random.integers(1, 5)), int(random.integers(1, 4 + place))
        needed = -(-length // size)
        table = random.permutation(needed + 2)[:needed].tolist()
        keys, values = np.full((2, needed + 2, size, 2), np.nan)
        for position in range(length):
            at = table[position // size], position % size
            keys[at], values[at] = random.standard_normal((2, 2)).round(1)
        yield random.standard_normal(2).round(1), keys, values, [*table, 2**30], length


def chunk_cases(seed: int = 2, count: int = 40) -> Iterator[tuple[list[Running]]]:
    """The chunks of a sequence, some of them empty."""
    random = np.random.default_rng(seed)
    for place in range(count):
        chunks = [scores_and_values(random, 4, 1.0 if place < 20 else 500.0) for _ in range(1 + place // 8)]
        yield ([fold(start(2), *chunk) for chunk in chunks],)


def flat(answer: Any) -> Vector:
    """A vector, or a running softmax as one; empty where there is no answer."""
    if answer is None:
        return np.zeros(0)
    return np.concatenate([np.atleast_1d(np.asarray(part, float)) for part in answer])


def same(one: Any, other: Any) -> bool:
    """Equal up to rounding; NaN equals nothing."""
    return flat(one).shape == flat(other).shape and np.allclose(flat(one), flat(other), rtol=1e-9, atol=1e-12)


def pictured(*names: str) -> Callable[..., Picture]:
    """What draws the last two of its arguments, the answer and the right one."""
    return lambda *case: compared(flat(case[-2]), flat(case[-1]), names)


def one_fold(answer: Callable[..., Running]) -> None:
    """Checks `answer(running, scores, values) -> running`."""
    names = ("top", "total", "sums[0]", "sums[1]")
    check(
        answer, fold, running_cases(), same=same, picture=lambda *case: compared(*map(flat, case[-2:]), names)
    )


def over_blocks(answer: Callable[..., Vector]) -> None:
    """Checks `answer(query, keys, values, table, length) -> attention [dim]`."""
    check(answer, gathered, block_cases(), same=same, picture=pictured("out[0]", "out[1]"))


def of_chunks(answer: Callable[..., Vector]) -> None:
    """Checks `answer(parts) -> attention [dim]`."""
    check(answer, joined, chunk_cases(), same=same, picture=pictured("out[0]", "out[1]"))
