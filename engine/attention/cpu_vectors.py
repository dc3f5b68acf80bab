"""Vectors of LANES float32 in compiled loops, where a compiler left alone would keep too few in registers.

numba knows neither float16 nor bfloat16, so caches of such arrive as other integers of 16 bits, by which
they are told apart.
"""

from typing import Any

import numba
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

FEATURES = binding.get_host_cpu_features()
HAS_F16C = bool(FEATURES.get("f16c"))  # without it, a conversion would be a call
HAS_AVX512 = bool(FEATURES.get("avx512f"))
LANES, NUM_REGISTERS = (16, 32) if HAS_AVX512 else (8, 16)  # of AVX2; a narrower machine splits them
FLOAT32, FLOAT16, BFLOAT16 = numba.float32, numba.uint16, numba.int16
FLOAT, INDEX = ir.FloatType(), ir.IntType(64)
VECTOR = ir.VectorType(FLOAT, LANES)
Builder = Any  # llvmlite's, which has no types
Value = Any


def vector_at(builder: Builder, pointer: Value, number: int = 0) -> Value:
    """A pointer to the `number`th vector of float32 from there."""
    return builder.bitcast(builder.gep(pointer, [INDEX(number * LANES)]), VECTOR.as_pointer())


def can_widen(dtype: Any) -> bool:
    """Whether `load` reads `dtype`."""
    return dtype in (FLOAT32, BFLOAT16) or (dtype == FLOAT16 and HAS_F16C)


def load(builder: Builder, pointer: Value, dtype: Any = FLOAT32, lanes: int = LANES) -> Value:
    """A vector of that many numbers of a cache as float32, or just one of them. It may lie anywhere."""

    def kind(of: Any) -> Any:
        return of if lanes == 1 else ir.VectorType(of, lanes)

    stored = {FLOAT32: FLOAT, FLOAT16: ir.HalfType(), BFLOAT16: ir.IntType(16)}[dtype]
    place = builder.bitcast(pointer, kind(stored).as_pointer())
    numbers = builder.load(place, align=dtype.bitwidth // 8)
    if dtype == FLOAT16:
        return builder.fpext(numbers, kind(FLOAT))
    if dtype == BFLOAT16:  # the upper half of a float32
        wide = kind(ir.IntType(32))
        sixteen = ir.Constant(wide, 16 if lanes == 1 else [16] * lanes)
        return builder.bitcast(builder.shl(builder.zext(numbers, wide), sixteen), kind(FLOAT))
    return numbers


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
    """rows[row, :width] = source[first : first + width] as float32; `rows` is contiguous, see `can_widen`."""

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
