"""Vectors of LANES float32 in compiled loops, where a compiler left alone would keep too few in registers.

numba knows no floats of 16 or 8 bits, so caches of such arrive as other types of that size, by which they are
told apart.
"""

from typing import Any

import numba
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils, config
from numba.extending import intrinsic


def has(feature: str) -> bool:
    """Whether numba compiles for a processor with it, by NUMBA_CPU_FEATURES (+avx2,+fma) or by this one."""
    asked: str | None = config.CPU_FEATURES  # pyright: ignore[reportAttributeAccessIssue]
    if asked is not None:
        return f"+{feature}" in asked.split(",")
    return bool(binding.get_host_cpu_features().get(feature))


HAS_F16C = has("f16c")  # without it, a conversion would be a call
LANES, NUM_REGISTERS = (16, 32) if has("avx512f") else (8, 16)  # or AVX2; less splits them
FLOAT32, FLOAT16, BFLOAT16 = numba.float32, numba.uint16, numba.int16
INT8, FLOAT8_E4M3, FLOAT8_E5M2 = numba.int8, numba.uint8, numba.boolean
NUM_BYTES = {FLOAT32: 4, FLOAT16: 2, BFLOAT16: 2, INT8: 1, FLOAT8_E4M3: 1, FLOAT8_E5M2: 1}
FLOAT, INDEX = ir.FloatType(), ir.IntType(64)
VECTOR = ir.VectorType(FLOAT, LANES)
Builder = Any  # llvmlite's, which has no types
Value = Any


def vector_at(builder: Builder, pointer: Value, number: int = 0) -> Value:
    """A pointer to the `number`th vector of float32 from there."""
    return builder.bitcast(builder.gep(pointer, [INDEX(number * LANES)]), VECTOR.as_pointer())


def load(builder: Builder, pointer: Value, dtype: Any = FLOAT32, lanes: int = LANES) -> Value:
    """A vector of that many numbers of a cache as float32, or just one of them. It may lie anywhere."""
    stored = FLOAT if dtype == FLOAT32 else ir.IntType(8 * NUM_BYTES[dtype])
    place = builder.bitcast(pointer, of_lanes(stored, lanes).as_pointer())
    numbers = builder.load(place, align=NUM_BYTES[dtype])
    if dtype == FLOAT32:
        return numbers
    if dtype == INT8:
        return builder.sitofp(numbers, of_lanes(FLOAT, lanes))
    if dtype == BFLOAT16:  # the upper half of a float32
        wide = builder.zext(numbers, of_lanes(ir.IntType(32), lanes))
        return builder.bitcast(builder.shl(wide, same(wide.type, 16)), of_lanes(FLOAT, lanes))
    if dtype == FLOAT16:
        return from_half(builder, numbers, lanes)
    half = builder.zext(numbers, of_lanes(ir.IntType(16), lanes))
    if dtype == FLOAT8_E5M2:  # the upper half of a float16
        return from_half(builder, builder.shl(half, same(half.type, 8)), lanes)
    # E4M3 has a bit of exponent less than a float16, which counts from 15, not 7; all ones is not a number.
    magnitude = builder.and_(half, same(half.type, 0x7F))
    shifted = builder.shl(magnitude, same(half.type, 7))
    is_number = builder.icmp_unsigned("!=", magnitude, same(half.type, 0x7F))
    shifted = builder.select(is_number, shifted, same(half.type, 0x7FFF))
    sign = builder.shl(builder.and_(half, same(half.type, 0x80)), same(half.type, 8))
    wide = from_half(builder, builder.or_(shifted, sign), lanes)
    return builder.fmul(wide, same(wide.type, 256.0))


def from_half(builder: Builder, bits: Value, lanes: int) -> Value:
    """float16, as integers of 16 bits, to float32."""
    if HAS_F16C:
        return builder.fpext(builder.bitcast(bits, of_lanes(ir.HalfType(), lanes)), of_lanes(FLOAT, lanes))
    wide = builder.zext(bits, of_lanes(ir.IntType(32), lanes))  # sign, 5 bits of exponent, 10 of mantissa
    magnitude = builder.and_(wide, same(wide.type, 0x7FFF))
    shifted = builder.shl(magnitude, same(wide.type, 13))
    floats = of_lanes(FLOAT, lanes)
    finite = builder.fmul(builder.bitcast(shifted, floats), same(floats, 2.0**112))  # from 15 to 127
    special = builder.or_(shifted, same(wide.type, 0x7F800000))
    is_finite = builder.icmp_unsigned("<", magnitude, same(wide.type, 0x7C00))
    number = builder.select(is_finite, builder.bitcast(finite, wide.type), special)
    sign = builder.shl(builder.and_(wide, same(wide.type, 0x8000)), same(wide.type, 16))
    return builder.bitcast(builder.or_(number, sign), floats)


def of_lanes(kind: Any, lanes: int) -> Any:
    """The type of a vector of so many, or of just one."""
    return kind if lanes == 1 else ir.VectorType(kind, lanes)


def same(kind: Any, number: float) -> Any:
    """The constant that is `number` in every lane."""
    return ir.Constant(kind, [number] * kind.count if isinstance(kind, ir.VectorType) else number)


def spread(builder: Builder, number: Value) -> Value:
    """A vector of nothing but `number`."""
    nothing = ir.Constant(VECTOR, ir.Undefined)
    one = builder.insert_element(nothing, number, ir.IntType(32)(0))
    return pick(builder, one, nothing, [0] * LANES)


def pick(builder: Builder, x: Value, y: Value, lanes: list[int]) -> Value:
    """A vector of these lanes of `x` (counted from 0) and of `y` (counted on)."""
    kind = ir.VectorType(ir.IntType(32), len(lanes))
    return builder.shuffle_vector(x, y, ir.Constant(kind, lanes))


def add_product(builder: Builder, x: Value, y: Value, z: Value) -> Value:
    """x * y + z, of vectors or of numbers: one instruction, rounded once, where the processor has it."""
    name = "llvm.fmuladd.f32" if x.type == FLOAT else f"llvm.fmuladd.v{LANES}f32"
    kind = ir.FunctionType(x.type, [x.type] * 3)
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [x, y, z])


def variables(builder: Builder, values: list[Value]) -> list[Value]:
    """Places of numbers that change in a loop; the compiler makes registers of them."""
    places = [cgutils.alloca_once(builder, value.type) for value in values]
    for place, value in zip(places, values, strict=True):
        builder.store(value, place)
    return places


def loop(builder: Builder, start: Value, stop: Value, step: int) -> Any:
    """A context that emits a loop; it gives its index first."""
    return cgutils.for_range_slice(builder, start, stop, INDEX(step), INDEX)


def ask_for(builder: Builder, pointer: Value, *, level: int | None) -> None:
    """Asks memory for the cache line of `pointer`, into the cache of that level (1 to 3).

    None: it will be read soon, and once. It goes into the first level and, where a processor can, no further:
    to push other lines from cache to cache takes time.
    """
    byte_pointer, int32 = ir.IntType(8).as_pointer(), ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [byte_pointer, int32, int32, int32])
    call = builder.module.declare_intrinsic("llvm.prefetch", [byte_pointer], kind)
    locality = 0 if level is None else 4 - level
    builder.call(call, [builder.bitcast(pointer, byte_pointer), int32(0), int32(locality), int32(1)])


@intrinsic
def widen_vectors(typing: Any, source: Any, first: Any, rows: Any, row: Any, width: Any) -> Any:
    """rows[row, :width] = source[first : first + width] as float32; `rows` is contiguous."""

    def emit(context: Any, builder: Builder, signature: Any, arguments: Any) -> Value:
        kinds, (_, first, _, row, width) = signature.args, arguments
        source, rows = (context.make_array(kinds[i])(context, builder, arguments[i]) for i in (0, 2))
        depth = cgutils.unpack_tuple(builder, rows.shape, 2)[1]
        whole = builder.and_(width, INDEX(-LANES))
        start = builder.gep(source.data, [first])
        target = builder.gep(rows.data, [builder.mul(row, depth)])
        for begin, end, lanes in ((INDEX(0), whole, LANES), (whole, width, 1)):
            with loop(builder, begin, end, lanes) as (d, _):
                numbers = load(builder, builder.gep(start, [d]), kinds[0].dtype, lanes)
                place = builder.gep(target, [d])
                builder.store(numbers, place if lanes == 1 else vector_at(builder, place), align=4)
        return context.get_dummy_value()

    index = types.intp
    return types.void(source, index, rows, index, index), emit
