"""Reading a few keys or values as float32, whatever the cache stores, and e**x as vector code.

Widening costs a shift (bfloat16), a conversion (float16) or a look-up among 256 numbers (8 bits).
"""

from typing import Any

import numba
import numpy as np
from numba import types
from numba.extending import intrinsic, overload

from engine.attention.cpu_jit import FASTMATH, compiled
from engine.attention.cpu_vectors import INDEX, can_widen, loop, widen_vectors
from engine.attention.cpu_vectors import ask_for as _ask_for

f32, u32 = np.float32, np.uint32
UNROLL = 4  # rows read together, so that a query or a sum is loaded once for four
ZERO, ONE, HALF = f32(0), f32(1), f32(0.5)
REBIAS = f32(2.0**112)  # from an exponent that counts from 15 to one that counts from 127
LOG2E, LN2_HIGH, LN2_LOW = f32(1.4426950408889634), f32(0.693359375), f32(-2.12194440e-4)


@numba.njit(fastmath={"contract"}, inline="always")
def exp(x: Any) -> Any:
    """e**x of a float32 x <= 0, to 3e-7 relative; 0 below -87. No branches: a loop of it is vector code."""
    clamped = f32(-87) if x < f32(-87) else x  # NaN stays NaN
    n = np.floor(clamped * LOG2E + HALF)  # e**x = 2**n * e**r, |r| <= ln(2) / 2
    r = clamped - n * LN2_HIGH - n * LN2_LOW
    p = ((f32(1.9875691500e-4) * r + f32(1.3981999507e-3)) * r + f32(8.3334519073e-3)) * r
    p = ((p + f32(4.1665795894e-2)) * r + f32(1.6666665459e-1)) * r + f32(5.0000001201e-1)
    power = np.int32((np.int32(n) + np.int32(127)) << np.int32(23)).view(np.float32)
    return ZERO if x < f32(-87) else (p * (r * r) + r + ONE) * power


def widen(source: Any, first: Any, codes: Any, rows: Any, row: Any, width: Any) -> None:
    """rows[row, :width] = the numbers of a flat cache from `first` on, as float32."""


@overload(widen, jit_options={"fastmath": FASTMATH})
def _widen(source: Any, first: Any, codes: Any, rows: Any, row: Any, width: Any) -> Any:
    def by_vectors(source: Any, first: Any, codes: Any, rows: Any, row: Any, width: Any) -> None:
        widen_vectors(source, first, rows, row, width)  # pyright: ignore[reportCallIssue]

    def from_codes(source: Any, first: Any, codes: Any, rows: Any, row: Any, width: Any) -> None:
        for d in range(width):
            rows[row, d] = codes[source[np.uintp(first + d)]]  # unsigned: no test for negatives

    def from_float16(source: Any, first: Any, codes: Any, rows: Any, row: Any, width: Any) -> None:
        for d in range(width):  # sign, 5 bits of exponent, 10 of mantissa
            bits = u32(source[np.uintp(first + d)])
            magnitude = bits & u32(0x7FFF)
            shifted = u32(magnitude << u32(13))
            finite = shifted.view(np.float32) * REBIAS  # subnormals too
            special = u32(shifted | u32(0x7F800000)).view(np.float32)
            number = special if magnitude >= u32(0x7C00) else finite
            rows[row, d] = -number if bits & u32(0x8000) else number

    if can_widen(source.dtype):
        return by_vectors
    return from_codes if source.dtype == numba.uint8 else from_float16


@compiled
def load_head(
    source: Any, offsets: Any, t: int, head_offset: int, codes: Any, rows: Any, row: int, width: int
) -> None:
    """rows[row + j, :width] = one head of the token at offsets[t + j], for j < UNROLL."""
    for j in range(UNROLL):
        widen(source, offsets[t + j] + head_offset, codes, rows, row + j, width)


def rows_of(
    source: Any, offsets: Any, t: Any, stride: Any, codes: Any, rows: Any, starts: Any, num_heads: Any
) -> Any:
    """Where UNROLL tokens can be read by vectors: a flat array, starts, the first of them, the head stride.

    It is the cache itself, unless that holds codes: then it is `rows` [num_heads * UNROLL, head_dim], which
    they are written to as numbers; `starts` [UNROLL] says where the first head of each token begins there.
    `stride` is from one kv head of a token to the next.
    """


@overload(rows_of, jit_options={"fastmath": FASTMATH})
def _rows_of(
    source: Any, offsets: Any, t: Any, stride: Any, codes: Any, rows: Any, starts: Any, num_heads: Any
) -> Any:
    def as_they_lie(
        source: Any, offsets: Any, t: Any, stride: Any, codes: Any, rows: Any, starts: Any, num_heads: Any
    ) -> Any:
        return source, offsets, t, stride

    def written(
        source: Any, offsets: Any, t: Any, stride: Any, codes: Any, rows: Any, starts: Any, num_heads: Any
    ) -> Any:
        for j in range(UNROLL):
            for head in range(num_heads):
                first, row = offsets[t + j] + head * stride, head * UNROLL + j
                widen(source, first, codes, rows, row, rows.shape[1])
        return rows.reshape(-1), starts, 0, UNROLL * rows.shape[1]

    return as_they_lie if can_widen(source.dtype) else written


@intrinsic
def ask_for(typing: Any, source: Any, offsets: Any, t: Any, head_offset: Any, width: Any) -> Any:
    """Asks memory for one head of UNROLL tokens that will be read: it answers after some 100 ns."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kinds, (source, offsets, t, head_offset, width) = signature.args, arguments
        data, places = (context.make_array(kind)(context, builder, one).data for kind, one in zip(kinds[:2], (source, offsets)))
        rows = [builder.gep(data, [builder.add(builder.load(builder.gep(places, [builder.add(t, INDEX(j))])), head_offset)]) for j in range(UNROLL)]
        with loop(builder, INDEX(0), width, 64 * 8 // kinds[0].dtype.bitwidth) as (d, _):
            for row in rows:
                _ask_for(builder, builder.gep(row, [d]), level=1)
        return context.get_dummy_value()

    index = types.intp
    return types.void(source, offsets, index, index, index), emit
