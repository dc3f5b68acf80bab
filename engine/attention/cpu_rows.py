"""Reading a few keys or values as float32, whatever the cache stores, and e**x as vector code."""

from typing import Any

import numba
import numpy as np
from numba import types
from numba.extending import intrinsic

from engine.attention.cpu_jit import compiled
from engine.attention.cpu_vectors import INDEX, NUM_BYTES, Builder, Value, ask_for, loop, widen_vectors

f32 = np.float32
UNROLL = 4  # rows read together, so that a query or a sum is loaded once for four
ZERO, ONE, HALF = f32(0), f32(1), f32(0.5)
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


@compiled
def load_head(source: Any, offsets: Any, t: int, head_offset: int, rows: Any, row: int, width: int) -> None:
    """rows[row + j, :width] = one head of the token at offsets[t + j] as float32, for j < UNROLL."""
    for j in range(UNROLL):
        widen_vectors(source, offsets[t + j] + head_offset, rows, row + j, width)  # pyright: ignore[reportCallIssue]


def rows_at(builder: Builder, source: Value, offsets: Value, t: Value, head_offset: Value) -> list[Value]:
    """Pointers to source[offsets[t + j] + head_offset], for j < UNROLL."""
    places = [builder.gep(offsets, [builder.add(t, INDEX(j))]) for j in range(UNROLL)]
    return [builder.gep(source, [builder.add(builder.load(place), head_offset)]) for place in places]


@intrinsic
def ask_for_rows(typing: Any, source: Any, offsets: Any, t: Any, head_offset: Any, width: Any) -> Any:
    """Asks memory for one head of UNROLL tokens, read soon and only once."""

    def emit(context: Any, builder: Builder, signature: Any, arguments: Any) -> Value:
        source, offsets = (
            context.make_array(kind)(context, builder, array).data
            for kind, array in zip(signature.args[:2], arguments[:2], strict=True)
        )
        rows = rows_at(builder, source, offsets, *arguments[2:4])
        line = 64 // NUM_BYTES[signature.args[0].dtype]
        with loop(builder, INDEX(0), arguments[4], line) as (d, _):
            for row in rows:
                ask_for(builder, builder.gep(row, [d]), level=None)
        return context.get_dummy_value()

    index = types.intp
    return types.void(source, offsets, index, index, index), emit
