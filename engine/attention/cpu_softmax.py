"""The scores of a tile on their way through the softmax.

Decode has a row of scores for each head: key beside key. Prefill has one for each key, see the functions of
that name: row beside row of queries, so that a vector holds the same key of many, and maxima and sums need no
step from lane to lane.
"""

from typing import Any

import numpy as np

from engine.attention.cpu_jit import compiled
from engine.attention.cpu_rows import ZERO, exp, f32
from engine.attention.cpu_tiles import round_up

LAST = np.int64(1 << 62)  # a position that none reaches


@compiled
def stretch(numbers: Any, count: int, scales: Any, offsets: Any, head_offset: int) -> None:
    """numbers[:count] times the scale of each token's head; nothing where there are no scales."""
    if scales.shape[0] > 0:
        for t in range(count):
            numbers[t] *= scales[offsets[t] + head_offset]


@compiled
def soften(scores: Any, positions: Any, count: int, position: int, softcap: float, slope: float) -> None:
    """Softcap (0 is none), then ALiBi, on the scores of one query at `position`."""
    if softcap > ZERO:
        for t in range(count):
            scores[t] = softcap * np.tanh(scores[t] / softcap)
    if slope != ZERO:
        for t in range(count):
            scores[t] += slope * f32(positions[t] - position)


@compiled
def weigh(scores: Any, count: int, top: float) -> tuple[Any, Any, Any]:
    """Turns scores[:count] into exp(score - maximum). Returns that maximum, the sum, and what to scale sums
    kept so far by: exp(top - maximum). Only -inf so far: the maximum stays -inf and every weight is 0.
    Scores past the count, up to a whole group of UNROLL, become 0."""
    highest = top
    for t in range(count):
        highest = scores[t] if scores[t] > highest else highest
    base = ZERO if highest == -np.inf else highest
    total = ZERO
    for t in range(count):
        scores[t] = exp(scores[t] - base)
        total += scores[t]
    for t in range(count, round_up(count)):
        scores[t] = ZERO
    return highest, total, exp(top - base)


@compiled
def stretch_keys(scores: Any, count: int, scales: Any, offsets: Any, head_offset: int) -> None:
    """scores[:count] times the scale of each token's head; nothing where there are no scales."""
    if scales.shape[0] > 0:
        for t in range(count):
            scale = scales[offsets[t] + head_offset]
            for r in range(scores.shape[1]):
                scores[t, r] *= scale


@compiled
def soften_keys(
    scores: Any, positions: Any, count: int, positions_of: Any, softcap: float, slopes: Any
) -> None:
    """Softcap (0 is none), then ALiBi by the `slopes` of the rows."""
    if softcap > ZERO:
        for t in range(count):
            for r in range(scores.shape[1]):
                scores[t, r] = softcap * np.tanh(scores[t, r] / softcap)
    for r in range(scores.shape[1]):
        if slopes[r] != ZERO:
            for t in range(count):
                scores[t, r] += slopes[r] * f32(positions[t] - positions_of[r])


@compiled
def hide_keys(
    scores: Any, positions: Any, count: int, positions_of: Any, sinks: int, window: int, until: Any
) -> None:
    """-inf for the keys of the tile that the query of a row, at positions_of[r], does not see."""
    for t in range(count):
        key = positions[t]
        until_then = until[key] if until.shape[0] > 0 else LAST
        start = LAST if key < sinks else key + window
        for r in range(scores.shape[1]):
            position = positions_of[r]
            is_seen = (key <= position) & (position < start) & (position <= until_then)
            scores[t, r] = scores[t, r] if is_seen else f32(-np.inf)


@compiled
def weigh_keys(scores: Any, count: int, tops: Any, bases: Any, totals: Any, rescales: Any) -> None:
    """Turns scores[:count] into exp(score - maximum of the row), and adds them to `totals`.

    tops become these maxima; rescales what to scale sums kept so far by: exp(old maximum - new). Only -inf so
    far: the maximum stays -inf and every weight is 0. Scores past the count, up to a whole group, become 0.
    `bases` is room for what is subtracted.
    """
    rescales[:] = tops
    for t in range(count):
        for r in range(scores.shape[1]):
            tops[r] = scores[t, r] if scores[t, r] > tops[r] else tops[r]
    for r in range(scores.shape[1]):
        bases[r] = ZERO if tops[r] == -np.inf else tops[r]
        rescales[r] = exp(rescales[r] - bases[r])
        totals[r] *= rescales[r]
    for t in range(count):
        for r in range(scores.shape[1]):
            scores[t, r] = exp(scores[t, r] - bases[r])
            totals[r] += scores[t, r]
    for t in range(count, round_up(count)):
        for r in range(scores.shape[1]):
            scores[t, r] = ZERO


@compiled
def has_only_numbers(values: Any, count: int) -> bool:
    """Whether none of values[:count] is infinite or no number: 0 times such a one is not 0."""
    total = ZERO
    for t in range(count):
        for d in range(values.shape[1]):
            total += values[t, d] * ZERO
    return total == ZERO


@compiled
def add_seen(weights: Any, values: Any, count: int, sums: Any) -> None:
    """sums[r] += weights[t, r] * values[t], summed over t < count, without those of weight 0.

    A matrix product would bring a value that is no number into rows that must not see it.
    """
    for t in range(count):
        for r in range(sums.shape[0]):
            weight = weights[t, r]
            if weight != ZERO:
                for d in range(sums.shape[1]):
                    sums[r, d] += weight * values[t, d]
