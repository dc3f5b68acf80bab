"""Reading a few keys or values as float32, whatever the cache stores, and e**x as vector code.

numba knows neither float16 nor bfloat16, so such caches arrive as uint16, and int8 and float8 ones as
uint8; a float32 cache arrives as it is. Widening costs a shift (bfloat16), a shift and a multiplication
(float16) or a look-up among 256 numbers (8 bits).
"""

from typing import Any

import numba
import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.extending import intrinsic, overload

from engine.attention.cpu_jit import FASTMATH, compiled

f32, u32 = np.float32, np.uint32
HAS_F16C = bool(binding.get_host_cpu_features().get("f16c"))  # without it, a conversion would be a call
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


@intrinsic
def from_half(typing: Any, bits: Any) -> Any:
    """The float16 of these 16 bits as float32: vector code, one instruction for eight of them."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fpext(builder.bitcast(arguments[0], ir.HalfType()), ir.FloatType())

    return types.float32(types.uint16), emit


def widen(source: Any, first: Any, is_half: Any, codes: Any, rows: Any, row: Any) -> Any:
    """rows[row] = the numbers at source[first:], as float32. `first` is unsigned: no test for negatives."""


@overload(widen, jit_options={"fastmath": FASTMATH})
def _widen(source: Any, first: Any, is_half: Any, codes: Any, rows: Any, row: Any) -> Any:
    def from_float32(source: Any, first: Any, is_half: Any, codes: Any, rows: Any, row: Any) -> Any:
        for d in range(rows.shape[1]):
            rows[row, d] = source[first + np.uintp(d)]

    def from_codes(source: Any, first: Any, is_half: Any, codes: Any, rows: Any, row: Any) -> Any:
        for d in range(rows.shape[1]):
            rows[row, d] = codes[source[first + np.uintp(d)]]

    def from_16_bits(source: Any, first: Any, is_half: Any, codes: Any, rows: Any, row: Any) -> Any:
        if is_half and HAS_F16C:
            for d in range(rows.shape[1]):
                rows[row, d] = from_half(source[first + np.uintp(d)])  # pyright: ignore[reportCallIssue]
        elif is_half:  # sign, 5 bits of exponent, 10 of mantissa
            for d in range(rows.shape[1]):
                bits = u32(source[first + np.uintp(d)])
                magnitude = bits & u32(0x7FFF)
                shifted = u32(magnitude << u32(13))
                finite = shifted.view(np.float32) * REBIAS  # subnormals too
                special = u32(shifted | u32(0x7F800000)).view(np.float32)
                number = special if magnitude >= u32(0x7C00) else finite
                rows[row, d] = -number if bits & u32(0x8000) else number
        else:  # bfloat16 is the upper half of a float32
            for d in range(rows.shape[1]):
                rows[row, d] = u32(u32(source[first + np.uintp(d)]) << u32(16)).view(np.float32)

    return {numba.float32: from_float32, numba.uint8: from_codes, numba.uint16: from_16_bits}[source.dtype]


@intrinsic
def prefetch(typing: Any, source: Any, index: Any) -> Any:
    """Asks for the cache line of source[index], to be there when it is read."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        byte_pointer, int32 = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte_pointer, int32, int32, int32])
        call = builder.module.declare_intrinsic("llvm.prefetch", [byte_pointer], kind)
        address = builder.bitcast(builder.gep(array.data, [arguments[1]]), byte_pointer)
        builder.call(call, [address, int32(0), int32(3), int32(1)])  # to read, keep it close, data
        return context.get_dummy_value()

    return types.void(source, index), emit


@compiled
def load_head(
    source: Any, offsets: Any, t: int, head_offset: int, is_half: bool, codes: Any, rows: Any, row: int
) -> None:
    """rows[row + j] = one head of the token at offsets[t + j], for j < UNROLL."""
    for j in range(UNROLL):
        widen(source, np.uintp(offsets[t + j] + head_offset), is_half, codes, rows, row + j)


@compiled
def load_tokens(
    source: Any,
    offsets: Any,
    t: int,
    head_stride: int,
    is_half: bool,
    codes: Any,
    rows: Any,
    num_kv_heads: int,
) -> None:
    """rows[kv_head * UNROLL + j] = that head of the token at offsets[t + j], for j < UNROLL.

    A token's heads are read one after the other, as they lie.
    """
    for j in range(UNROLL):
        for kv_head in range(num_kv_heads):
            first = np.uintp(offsets[t + j] + kv_head * head_stride)
            widen(source, first, is_half, codes, rows, kv_head * UNROLL + j)


@compiled
def ask_for_tokens(
    source: Any, offsets: Any, t: int, head_stride: int, head_dim: int, num_kv_heads: int
) -> None:
    """Asks memory for what `load_tokens` will read: it answers after some 100 ns."""
    line = 64 // source.itemsize
    for j in range(UNROLL):
        for kv_head in range(num_kv_heads):
            first = np.uintp(offsets[t + j] + kv_head * head_stride)
            for d in range(0, head_dim, line):
                prefetch(source, first + np.uintp(d))  # pyright: ignore[reportCallIssue]
