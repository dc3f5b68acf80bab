"""Lesson 13: the museum pieces about numbers."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lessons.checks.core import check
from lessons.pictures_card import card_of

Vector = NDArray[np.float64]
Answer = Callable[..., Any]
COUNT = 60


def compare(answer: Answer, right: Answer, cases: Iterator[tuple[Any, ...]]) -> None:
    """As `check`, up to rounding; NaN is like nothing."""

    def same(one: Any, other: Any) -> bool:
        return np.shape(one) == np.shape(other) and np.allclose(one, other, rtol=1e-9)

    check(answer, right, cases, same=same, picture=card_of(answer))


def total_weight(answer: Answer) -> None:
    """Checks `answer(scores) -> sum of exp(score - largest)`, for scores of any size."""

    def right(scores: list[float]) -> float:
        return float(np.exp(np.array(scores) - np.max(scores)).sum())

    random = np.random.default_rng(0)
    sizes = 10.0 ** random.integers(0, 7, COUNT)
    scores = ((-size * random.random(random.integers(1, 5))).round(1) for size in sizes)
    compare(answer, right, ((row.tolist(),) for row in scores))


def weights(answer: Answer) -> None:
    """Checks `answer(scores) -> softmax`, zeros where every score is hidden."""

    def right(scores: Vector) -> Vector:
        seen = np.isfinite(scores)
        after = np.zeros(len(scores))
        if seen.any():
            after[seen] = np.exp(scores[seen] - scores[seen].max())
            after /= after.sum()
        return after

    def cases(random: np.random.Generator) -> Iterator[tuple[Vector]]:
        for _ in range(COUNT):
            scores = random.standard_normal(random.integers(1, 4)).round(1)
            scores[random.random(len(scores)) < 0.4] = -np.inf
            yield (scores,)

    compare(answer, right, cases(np.random.default_rng(1)))


def offsets(answer: Answer) -> None:
    """Checks `answer(blocks, stride) -> where each block begins`; `blocks` is int32."""

    def right(blocks: NDArray[np.int32], stride: int) -> list[int]:
        return [block * stride for block in blocks.tolist()]

    random = np.random.default_rng(2)
    pools = ((random.integers(0, 2 ** int(bits), 3), 480 * 576) for bits in random.integers(4, 18, COUNT))
    compare(answer, right, ((blocks.astype(np.int32), stride) for blocks, stride in pools))


def attend(answer: Answer) -> None:
    """Checks `answer(query, keys, values, k_scale, v_scale) -> attention [dim]` over int8 codes."""

    def right(query: Vector, keys: Any, values: Any, k_scale: float, v_scale: float) -> Vector:
        scores = (keys * k_scale) @ query
        shares = np.exp(scores - scores.max())
        return shares @ (values * v_scale) / shares.sum()

    def cases(random: np.random.Generator) -> Iterator[tuple[Any, ...]]:
        for _ in range(COUNT):
            keys, values = random.integers(-127, 128, (2, random.integers(1, 4), 2), np.int8)
            k_scale, v_scale = (2.0 ** random.integers(-8, 1, 2)).tolist()
            yield random.standard_normal(2).round(1), keys, values, k_scale, v_scale

    compare(answer, right, cases(np.random.default_rng(3)))


def steady_sum(answer: Answer) -> None:
    """Checks `answer(numbers, batch) -> sum`: near the exact one, and for every batch the same to the bit."""

    def is_steady(numbers: NDArray[np.float32], batch: int) -> bool:
        alone, together = answer(numbers, 1), answer(numbers, batch)
        is_near = bool(np.isclose(together, numbers.astype(np.float64).sum(), atol=1e-3))
        return is_near and float(alone) == float(together)

    is_steady.__name__ = f"same sum alone and in a batch by {answer.__name__}"
    random = np.random.default_rng(4)
    batches = (
        (random.standard_normal(24).astype(np.float32), int(random.integers(1, 9))) for _ in range(COUNT)
    )
    compare(is_steady, lambda numbers, batch: True, batches)
