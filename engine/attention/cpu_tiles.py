"""Where the next tile of keys lies that a query may see, for decode and prefill."""

from typing import Any

from engine.attention.cpu_jit import compiled
from engine.attention.cpu_rows import UNROLL

TILE = 64  # keys between two looks at the running maximum


@compiled
def round_up(count: int) -> int:
    """To a whole group of UNROLL."""
    return (count + UNROLL - 1) // UNROLL * UNROLL


@compiled
def fill(array: Any, number: float) -> None:
    """array[:, :] = number; numba takes seconds to compile that line."""
    for i in range(array.shape[0]):
        for j in range(array.shape[1]):
            array[i, j] = number


@compiled
def locate(
    table: Any, block_size: int, strides: Any, token: int, stop: int, sinks: int, window_start: int,
    until: Any, asking: int, offsets: Any, positions: Any,
) -> tuple[int, int]:  # fmt: skip
    """The next visible tokens in [token, stop), at most a tile: their number, and the token to go on from.

    Visible are [0, sinks) and [window_start, stop), of these the tokens with until[token] >= `asking`, a
    query's position; an empty `until` leaves out none. strides and offsets [3, ...]: of keys, values and
    scales. Past the count, up to a whole group of UNROLL, the offsets repeat the last one, so that the loops
    need no remainder.
    """
    count = 0
    while token < stop and count < TILE:
        if sinks <= token < window_start:
            token = window_start
            continue
        if until.shape[0] > 0 and until[token] < asking:
            token += 1
            continue
        block, offset = table[token // block_size], token % block_size
        for which in range(3):
            offsets[which, count] = block * strides[which, 0] + offset * strides[which, 1]
        positions[count] = token
        count += 1
        token += 1
    for which in range(3):
        for t in range(count, round_up(count)):
            offsets[which, t] = offsets[which, count - 1]
    return count, token
