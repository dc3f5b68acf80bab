"""Reading a few keys or values as float32, whatever the cache stores, and e**x as vector code.

Widening costs a shift (bfloat16), a conversion (float16) or a look-up among 256 numbers (8 bits).
"""

from typing import Any

import numba
import numpy as np
from numba import types
from numba.extending import intrinsic, overload

from engine.attention.cpu_jit import FASTMATH, compiled
from engine.attention.cpu_vectors import INDEX, Builder, Value, ask_for, can_widen, loop, widen_vectors

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


def prepare(source: Any, offsets: Any, t: Any, head_offset: Any, codes: Any, rows: Any) -> None:
    """`load_head` into `rows` [UNROLL, head_dim], unless vectors can be read from the cache as they lie."""


@overload(prepare)
def _prepare(source: Any, offsets: Any, t: Any, head_offset: Any, codes: Any, rows: Any) -> Any:
    def nothing(source: Any, offsets: Any, t: Any, head_offset: Any, codes: Any, rows: Any) -> None:
        pass

    def written(source: Any, offsets: Any, t: Any, head_offset: Any, codes: Any, rows: Any) -> None:
        load_head(source, offsets, t, head_offset, codes, rows, 0, rows.shape[1])

    return nothing if can_widen(source.dtype) else written


def rows_at(builder: Builder, source: Value, offsets: Value, t: Value, head_offset: Value) -> list[Value]:
    """Pointers to source[offsets[t + j] + head_offset], for j < UNROLL."""
    places = [builder.gep(offsets, [builder.add(t, INDEX(j))]) for j in range(UNROLL)]
    return [builder.gep(source, [builder.add(builder.load(place), head_offset)]) for place in places]


@intrinsic
def ask_for_rows(typing: Any, source: Any, offsets: Any, t: Any, head_offset: Any, width: Any) -> Any:
    """Asks memory for one head of UNROLL tokens, read soon and only once: it answers after some 100 ns."""

    def emit(context: Any, builder: Builder, signature: Any, arguments: Any) -> Value:
        source, offsets = (
            context.make_array(kind)(context, builder, array).data
            for kind, array in zip(signature.args[:2], arguments[:2], strict=True)
        )
        rows = rows_at(builder, source, offsets, *arguments[2:4])
        line = 64 * 8 // signature.args[0].dtype.bitwidth
        with loop(builder, INDEX(0), arguments[4], line) as (d, _):
            for row in rows:
                ask_for(builder, builder.gep(row, [d]), level=None)
        return context.get_dummy_value()

    index = types.intp
    return types.void(source, offsets, index, index, index), emit
