"""Products of small matrices: TILE_ROWS rows of one by some vectors of the other, their sums in registers."""

from collections.abc import Callable, Sequence
from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from engine.attention.cpu_jit import compiled
from engine.attention.cpu_vectors import (
    INDEX,
    LANES,
    NUM_REGISTERS,
    Builder,
    Value,
    add_product,
    load,
    loop,
    spread,
    variables,
    vector_at,
)

TILE_ROWS = 4
MAX_VECTORS = NUM_REGISTERS // 8  # half of the registers hold sums: enough that none waits for the last one


def emit_tile(
    builder: Builder, lines: Sequence[Callable[[Value], Value]], weights: Callable[[Value], Value],
    targets: Sequence[Sequence[Value]], start: Value, stop: Value,
) -> None:  # fmt: skip
    """targets[r][v] += sum over k in [start, stop) of *lines[r](k) * the `v`th vector from weights(k) on.

    Functions and targets are pointers; a target is a vector's. Every sum runs over k in ascending order.
    """
    flat = [target for own in targets for target in own]
    places = iter(variables(builder, [builder.load(target, align=4) for target in flat]))
    sums = [[next(places) for _ in own] for own in targets]
    with loop(builder, start, stop, 1) as (k, _):
        place = weights(k)
        loaded = [load(builder, vector_at(builder, place, v)) for v in range(len(targets[0]))]
        for line, own in zip(lines, sums, strict=True):
            factor = spread(builder, builder.load(line(k)))
            for weight, one in zip(loaded, own, strict=True):
                builder.store(add_product(builder, factor, weight, builder.load(one)), one)
    for target, one in zip(flat, (one for own in sums for one in own), strict=True):
        builder.store(builder.load(one), target, align=4)


@intrinsic
def add_tile(
    typing: Any, a: Any, row_stride: Any, step: Any, b: Any, depth: Any, c: Any, row: Any, column: Any,
    number: Any,
) -> Any:  # fmt: skip
    """The rows [row, row + TILE_ROWS) and `number` vectors from `column` on of `add_matrix_product`."""

    def emit(context: Any, builder: Builder, signature: Any, arguments: Any) -> Value:
        a, b, c = (context.make_array(signature.args[i])(context, builder, arguments[i]) for i in (0, 3, 5))
        _, row_stride, step, _, depth, _, row, column, number = arguments
        b_width, c_width = (cgutils.unpack_tuple(builder, array.shape, 2)[1] for array in (b, c))
        rows = [builder.add(row, INDEX(r)) for r in range(TILE_ROWS)]
        factors = [builder.gep(a.data, [builder.mul(r, row_stride)]) for r in rows]
        lines = [lambda k, one=one: builder.gep(one, [builder.mul(k, step)]) for one in factors]
        first = builder.gep(b.data, [column])
        out = [builder.gep(c.data, [builder.add(builder.mul(r, c_width), column)]) for r in rows]
        for vectors in range(1, MAX_VECTORS + 1):
            with builder.if_then(builder.icmp_unsigned("==", number, INDEX(vectors))):
                targets = [[vector_at(builder, one, v) for v in range(vectors)] for one in out]
                emit_tile(
                    builder, lines, lambda k: builder.gep(first, [builder.mul(k, b_width)]), targets,
                    INDEX(0), depth,
                )  # fmt: skip
        return context.get_dummy_value()

    index = types.intp
    return types.void(a, index, index, b, index, c, index, index, index), emit


@compiled
def add_matrix_product(a: Any, row_stride: int, step: int, b: Any, depth: int, c: Any, num_rows: int) -> None:
    """c[i] += sum over k < depth of a.flat[i * row_stride + k * step] * b[k], for i < num_rows.

    All float32 and contiguous; num_rows is a multiple of TILE_ROWS, the width of b and c one of LANES.
    """
    width = b.shape[1]
    for row in range(0, num_rows, TILE_ROWS):
        for column in range(0, width, MAX_VECTORS * LANES):
            number = min(MAX_VECTORS, (width - column) // LANES)
            add_tile(a, row_stride, step, b, depth, c, row, column, number)  # pyright: ignore[reportCallIssue]
