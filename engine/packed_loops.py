"""Few rows times a large matrix on a CPU: the product of a decode step, which reads every weight once.

    panel   WIDTH rows of the matrix [out, in], turned: [in, WIDTH], so that one load serves WIDTH outputs
    tile    up to TILE_ROWS rows of x times one panel: TILE_ROWS * WIDTH sums, held in registers

Every sum runs over the inputs in ascending order, whatever the tile and whoever computes it. So a row of the
result does not depend, in any bit, on the other rows: a sequence says the same in every batch.

Naive, as a library does it: rearranges the matrix at every call (`linear`), or lays it out for many rows
(oneDNN) and then waits for memory at few. `python -m bench.products` times all three.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from engine.attention.cpu_jit import compiled

LANES, VECTORS, TILE_ROWS = 8, 3, 4  # 12 sums, 3 loads and 1 factor: the 16 registers of AVX2
WIDTH = LANES * VECTORS
DEPTH = 192  # inputs at a time: their part of a panel, 18 KB, stays in the first-level cache
LINE = 16  # numbers in a line of the cache
BLOCK = 128  # rows at a time: their part of x, 96 KB, stays in the second-level cache

FLOAT, INDEX = ir.FloatType(), ir.IntType(64)
VECTOR = ir.VectorType(FLOAT, LANES)


def _tile(num_rows: int, *, asks: bool = False) -> Any:
    """Adds x[row : row + num_rows, start : stop] @ panel[start : stop] to out[row :, column :].

    With `asks`, memory is asked meanwhile for the part of a panel that comes DEPTH inputs later.
    """

    @intrinsic
    def tile(
        typing: Any, x: Any, row: Any, start: Any, stop: Any, panels: Any, panel: Any, out: Any, column: Any
    ) -> Any:
        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kinds, given = signature.args, arguments
            x, panels, out = (context.make_array(kinds[i])(context, builder, given[i]) for i in (0, 4, 6))
            row, start, stop, panel, column = given[1], given[2], given[3], given[5], given[7]
            depth, width = (cgutils.unpack_tuple(builder, array.shape, 2)[1] for array in (x, out))
            rows = [builder.add(row, INDEX(r)) for r in range(num_rows)]
            factors = [builder.gep(x.data, [builder.mul(r, depth)]) for r in rows]
            first = builder.mul(panel, builder.mul(depth, INDEX(WIDTH)))
            weights = builder.gep(panels.data, [first])
            targets = [
                vector_at(builder, builder.gep(out.data, [builder.add(builder.mul(r, width), column)]), v)
                for r in rows
                for v in range(VECTORS)
            ]
            sums = [cgutils.alloca_once(builder, VECTOR) for _ in targets]
            for target, one in zip(targets, sums, strict=True):
                builder.store(builder.load(target, align=4), one)
            with cgutils.for_range_slice(builder, start, stop, INDEX(1), INDEX) as (k, _):
                place = builder.gep(weights, [builder.mul(k, INDEX(WIDTH))])
                if asks:
                    ask_for(builder, builder.gep(place, [INDEX(DEPTH * WIDTH)]))
                loaded = [builder.load(vector_at(builder, place, v), align=4) for v in range(VECTORS)]
                for r, line in enumerate(factors):
                    factor = spread(builder, builder.load(builder.gep(line, [k])))
                    for v, weight in enumerate(loaded):
                        one = sums[r * VECTORS + v]
                        builder.store(add_product(builder, factor, weight, builder.load(one)), one)
            for target, one in zip(targets, sums, strict=True):
                builder.store(builder.load(one), target, align=4)
            return context.get_dummy_value()

        index = types.intp
        return types.void(x, index, index, index, panels, index, out, index), emit

    return tile


def vector_at(builder: Any, pointer: Any, number: int) -> Any:
    """A pointer to the `number`th vector from there."""
    return builder.bitcast(builder.gep(pointer, [INDEX(number * LANES)]), VECTOR.as_pointer())


def ask_for(builder: Any, pointer: Any) -> None:
    """Asks for the WIDTH numbers from there on, into the second-level cache."""
    byte_pointer, int32 = ir.IntType(8).as_pointer(), ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [byte_pointer, int32, int32, int32])
    call = builder.module.declare_intrinsic("llvm.prefetch", [byte_pointer], kind)
    for number in range(0, WIDTH, LINE):
        address = builder.bitcast(builder.gep(pointer, [INDEX(number)]), byte_pointer)
        builder.call(call, [address, int32(0), int32(2), int32(1)])  # to read, second level, data


def spread(builder: Any, number: Any) -> Any:
    """A vector of nothing but `number`."""
    nothing, lanes = ir.Constant(VECTOR, ir.Undefined), ir.VectorType(ir.IntType(32), LANES)
    one = builder.insert_element(nothing, number, ir.IntType(32)(0))
    return builder.shuffle_vector(one, nothing, ir.Constant(lanes, [0] * LANES))


def add_product(builder: Any, x: Any, y: Any, z: Any) -> Any:
    """x * y + z: one instruction, rounded once, where the processor has it."""
    kind = ir.FunctionType(VECTOR, [VECTOR] * 3)
    function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fmuladd.v{LANES}f32")
    return builder.call(function, [x, y, z])


@intrinsic
def take(typing: Any, counter: Any) -> Any:
    """counter[0] += 1, undivided; returns what it was."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        return builder.atomic_rmw("add", array.data, INDEX(1), "monotonic")

    return types.intp(counter), emit


tile_1, tile_2, tile_3, tile_4 = (_tile(num_rows) for num_rows in range(1, TILE_ROWS + 1))
tile_4_asking = _tile(TILE_ROWS, asks=True)


@compiled
def multiply(x: Any, panels: Any, out: Any, num_panels: int, counter: Any) -> None:
    """out = x @ panels, as far as `counter` gives out work: any number of threads may call it with the same.

    x float32 [rows, in]; panels [all panels, in, WIDTH]; out [rows, all panels * WIDTH]; all contiguous.
    A piece of work is a block of rows times `num_panels` panels. counter int64 [1], 0 at first.
    """
    rows, depth = x.shape
    num_groups = (panels.shape[0] + num_panels - 1) // num_panels
    num_pieces = (rows + BLOCK - 1) // BLOCK * num_groups
    piece = take(counter)  # pyright: ignore[reportCallIssue]
    while piece < num_pieces:
        first, last = piece // num_groups * BLOCK, min(piece // num_groups * BLOCK + BLOCK, rows)
        of_group = piece % num_groups * num_panels
        for panel in range(of_group, min(of_group + num_panels, panels.shape[0])):
            column = panel * WIDTH
            for row in range(first, last):
                for j in range(column, column + WIDTH):
                    out[row, j] = 0
            for start in range(0, depth, DEPTH):
                stop, row = min(start + DEPTH, depth), first
                while row + TILE_ROWS <= last:
                    if row == first + TILE_ROWS:  # the first waits for memory itself
                        tile_4_asking(x, row, start, stop, panels, panel, out, column)
                    else:
                        tile_4(x, row, start, stop, panels, panel, out, column)
                    row += TILE_ROWS
                if last - row == 3:
                    tile_3(x, row, start, stop, panels, panel, out, column)
                elif last - row == 2:
                    tile_2(x, row, start, stop, panels, panel, out, column)
                elif last - row == 1:
                    tile_1(x, row, start, stop, panels, panel, out, column)
        piece = take(counter)  # pyright: ignore[reportCallIssue]
