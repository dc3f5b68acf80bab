"""Lesson 1: what a cache saves and what it takes."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lessons.checks.core import check
from lessons.pictures_cache import arrays, bars
from sim.models import MODELS

Array = NDArray[np.float64]
Step = tuple[Array, Array, Array]  # output [D], keys and values [tokens, D]
STEP_PARTS = ("output", "keys", "values")


def rows_of_loop(prompt: int, output: int, has_cache: bool) -> int:
    """Rows of keys that one layer computes until `output` tokens are emitted, counted one by one."""
    rows, known, cached = 0, prompt, 0
    for _ in range(output):
        rows += known - cached
        cached = known if has_cache else 0
        known += 1
    return rows


def bytes_of_spec(layers: int, kv_heads: int, head_dim: int, element_bytes: int) -> int:
    """The library's answer: bytes of one token's keys and values."""
    spec = replace(
        MODELS["tiny"], num_layers=layers, num_heads=kv_heads, num_kv_heads=kv_heads, head_dim=head_dim
    )
    return spec.kv_bytes_per_token({2: "fp16", 4: "fp32"}[element_bytes])


def attend_all(query: Array, key: Array, value: Array, keys: Array, values: Array) -> Step:
    """One query over all keys, one at a time: the slow reference."""
    keys, values = np.vstack([keys, key]), np.vstack([values, value])
    weights = [
        np.exp(sum(q * k for q, k in zip(query, row, strict=True)) / len(query) ** 0.5) for row in keys
    ]
    total = sum(weights)
    mixed = sum(
        (weight / total * row for weight, row in zip(weights, values, strict=True)), np.zeros(len(query))
    )
    return mixed, keys, values


def counted_rows(answer: Callable[[int, int, bool], int]) -> None:
    """Checks `answer(prompt, output, has_cache)`."""
    random = Random(1)
    cases = [(random.randint(1, 30), random.randint(1, 30), random.random() < 0.5) for _ in range(50)]
    check(
        answer, rows_of_loop, cases, picture=lambda *case: bars(case[-2], case[-1], "rows of keys computed")
    )


def bytes_per_token(answer: Callable[[int, int, int, int], int]) -> None:
    """Checks `answer(layers, kv_heads, head_dim, element_bytes)`."""
    random = Random(2)
    cases = [
        (random.randint(1, 96), random.randint(1, 40), 2 * random.randint(8, 64), random.choice((2, 4)))
        for _ in range(50)
    ]
    check(answer, bytes_of_spec, cases, picture=lambda *case: bars(case[-2], case[-1], "bytes a token"))


def decode_step(answer: Callable[[Array, Array, Array, Array, Array], Step]) -> None:
    """Checks `answer(query, key, value, keys, values) -> (output, keys, values)`, one head, one new token."""
    check(answer, attend_all, _decode_cases(), same=_is_close, parts=STEP_PARTS, picture=_draw_step)


def _decode_cases(seed: int = 3, count: int = 20) -> Iterator[tuple[Array, ...]]:
    """Query, key and value [D] of the new token; keys and values [tokens, D] of those before it."""
    random = np.random.default_rng(seed)
    for tokens in range(count):
        size = int(random.integers(2, 5))
        shapes: list[Any] = [size, size, size, (tokens, size), (tokens, size)]
        yield tuple(random.normal(size=shape).round(1) for shape in shapes)


def _is_close(one: Any, other: Step) -> bool:
    if not isinstance(one, tuple | list) or len(one) != len(other):
        return False
    return all(np.shape(a) == b.shape and np.allclose(a, b) for a, b in zip(one, other, strict=True))


def _draw_step(*case: Any) -> Any:
    got = case[-2] if isinstance(case[-2], tuple | list) else (case[-2],)
    yours = {f"yours: {name}": array for name, array in zip(STEP_PARTS, got, strict=False)}
    return arrays(yours | {f"right: {name}": array for name, array in zip(STEP_PARTS, case[-1], strict=True)})
