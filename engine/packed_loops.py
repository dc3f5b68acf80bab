"""Few rows times a large matrix on a CPU: the product of a decode step, which reads every weight once.

    panel   WIDTH rows of the matrix [out, in], turned: [in, WIDTH], so that one load serves WIDTH outputs
    tile    up to TILE_ROWS rows of x times one panel: TILE_ROWS * WIDTH sums, held in registers

Every sum runs over the inputs in ascending order, whatever the tile and whoever computes it. So a row of the
result does not depend, in any bit, on the other rows: a sequence says the same in every batch.

A decode step has many short products, and to wake a sleeping thread for each takes a good part of it. So a
helper stands by between them (`stand_by`), awake and in compiled code, and a product is announced to it by a
number in memory (`multiply_with_help`). Nobody waits for one who has not come.

Naive, as a library does it: rearranges the matrix at every call (`linear`), or lays it out for many rows
(oneDNN) and then waits for memory at few. `python -m bench.products` times all three.
"""

from typing import Any

from numba import (
    carray,  # pyright: ignore[reportPrivateImportUsage]
    types,
)
from numba.core import cgutils
from numba.extending import intrinsic

from engine.attention.cpu_atomics import (
    atomic_add,
    atomic_get,
    atomic_set,
    floats_at,
    integers_at,
    rest_a_moment,
)
from engine.attention.cpu_jit import compiled
from engine.attention.cpu_products import TILE_ROWS, emit_tile
from engine.attention.cpu_vectors import INDEX, LANES, ask_for, vector_at
from engine.team import Standby

VECTORS = 3  # times TILE_ROWS are 12 sums, with 3 loads and 1 factor the 16 registers of AVX2
WIDTH = LANES * VECTORS
DEPTH = 192  # inputs at a time: their part of a panel, 18 KB of AVX2, stays in the first-level cache
BLOCK = 128  # rows at a time: their part of x, 96 KB, stays in the second-level cache


def _tile(num_rows: int) -> Any:
    """Adds x[row : row + num_rows, start : stop] @ panel[start : stop] to out[row :, column :].

    Meanwhile memory is asked for the numbers of all panels from `ask` on: `step` of them for each input. All
    at once would keep the core waiting, which can have only so many lines on their way.
    """

    @intrinsic
    def tile(
        typing: Any, x: Any, row: Any, start: Any, stop: Any, panels: Any, panel: Any, out: Any, column: Any,
        ask: Any, step: Any,
    ) -> Any:  # fmt: skip
        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kinds, given = signature.args, arguments
            x, panels, out = (context.make_array(kinds[i])(context, builder, given[i]) for i in (0, 4, 6))
            row, start, stop, panel, column = given[1], given[2], given[3], given[5], given[7]
            asked, step = builder.gep(panels.data, [given[8]]), given[9]
            depth, width = (cgutils.unpack_tuple(builder, array.shape, 2)[1] for array in (x, out))
            rows = [builder.add(row, INDEX(r)) for r in range(num_rows)]
            factors = [builder.gep(x.data, [builder.mul(r, depth)]) for r in rows]
            first = builder.mul(panel, builder.mul(depth, INDEX(WIDTH)))
            weights = builder.gep(panels.data, [first])
            targets = [builder.gep(out.data, [builder.add(builder.mul(r, width), column)]) for r in rows]

            def weights_of(k: Any) -> Any:
                of_this = builder.mul(builder.sub(k, start), step)
                ask_for(builder, builder.gep(asked, [of_this]), level=2)
                return builder.gep(weights, [builder.mul(k, INDEX(WIDTH))])

            emit_tile(
                builder,
                [lambda k, one=one: builder.gep(one, [k]) for one in factors],
                weights_of,
                [[vector_at(builder, target, v) for v in range(VECTORS)] for target in targets],
                start,
                stop,
            )
            return context.get_dummy_value()

        index = types.intp
        return types.void(x, index, index, index, panels, index, out, index, index, index), emit

    return tile


@intrinsic
def take(typing: Any, counter: Any) -> Any:
    """counter[0] += 1, undivided; returns what it was."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        return builder.atomic_rmw("add", array.data, INDEX(1), "monotonic")

    return types.intp(counter), emit


tile_1, tile_2, tile_3, tile_4 = (_tile(num_rows) for num_rows in range(1, TILE_ROWS + 1))


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
        next_piece = take(counter)  # pyright: ignore[reportCallIssue]
        first, last = piece // num_groups * BLOCK, min(piece // num_groups * BLOCK + BLOCK, rows)
        num_tiles = (last - first + TILE_ROWS - 1) // TILE_ROWS
        step = (WIDTH + num_tiles - 1) // num_tiles  # each asks for its share of what comes next
        of_group = piece % num_groups * num_panels
        end_of_group = min(of_group + num_panels, panels.shape[0])
        for panel in range(of_group, end_of_group):
            column = panel * WIDTH
            for row in range(first, last):
                for j in range(column, column + WIDTH):
                    out[row, j] = 0
            for start in range(0, depth, DEPTH):
                stop = min(start + DEPTH, depth)
                ask = (panel * depth + stop) * WIDTH
                if stop == depth and panel + 1 == end_of_group and next_piece < num_pieces:
                    ask = next_piece % num_groups * num_panels * depth * WIDTH
                for row in range(first, last, TILE_ROWS):
                    if last - row >= TILE_ROWS:
                        tile_4(x, row, start, stop, panels, panel, out, column, ask, step)
                    elif last - row == 3:
                        tile_3(x, row, start, stop, panels, panel, out, column, ask, step)
                    elif last - row == 2:
                        tile_2(x, row, start, stop, panels, panel, out, column, ask, step)
                    else:
                        tile_1(x, row, start, stop, panels, panel, out, column, ask, step)
                    ask += (stop - start) * step
        piece = next_piece


# The board of `engine.team.Standby`, int64 [BOARD_SIZE]: a cache line for each number that changes often.
LEAVE = Standby.LEAVE
TURN, IS_OPEN, NUM_INSIDE, IS_TAKEN, PRODUCT = range(8, 48, 8)
BOARD_SIZE = PRODUCT + 8


@compiled
def multiply_with_help(board: Any, x: Any, panels: Any, out: Any, num_panels: int, counter: Any) -> None:
    """`multiply`, with whoever stands by at `board`. Of two products at a time the second gets no help.

    When it returns, no helper reads or writes its arrays any more.
    """
    if atomic_set(board, IS_TAKEN, 1) != 0:
        multiply(x, panels, out, num_panels, counter)
        return
    board[PRODUCT] = x.ctypes.data
    board[PRODUCT + 1] = x.shape[0]
    board[PRODUCT + 2] = x.shape[1]
    board[PRODUCT + 3] = panels.ctypes.data
    board[PRODUCT + 4] = panels.shape[0]
    board[PRODUCT + 5] = out.ctypes.data
    board[PRODUCT + 6] = num_panels
    board[PRODUCT + 7] = counter.ctypes.data
    atomic_add(board, TURN, 1)
    atomic_set(board, IS_OPEN, 1)
    multiply(x, panels, out, num_panels, counter)
    atomic_set(board, IS_OPEN, 0)
    while atomic_get(board, NUM_INSIDE) != 0:
        rest_a_moment()
    atomic_set(board, IS_TAKEN, 0)


@compiled
def stand_by(board: Any, leave: int, patience: int) -> None:
    """Helps with every product, until LEAVE is not `leave` or for `patience` looks in a row there was none.

    A helper goes inside first and then looks whether the product is still open; who owns it closes it first
    and then looks whether somebody is inside. So one of them sees the other.
    """
    done, looks = 0, 0
    while looks < patience and atomic_get(board, LEAVE) == leave:
        if atomic_get(board, IS_OPEN) != 0 and atomic_get(board, TURN) != done:
            atomic_add(board, NUM_INSIDE, 1)
            if atomic_get(board, IS_OPEN) != 0:
                done = atomic_get(board, TURN)
                _multiply_posted(board)
            atomic_add(board, NUM_INSIDE, -1)
            looks = 0
        else:
            rest_a_moment()
            looks += 1


@compiled
def _multiply_posted(board: Any) -> None:
    rows, depth, count = board[PRODUCT + 1], board[PRODUCT + 2], board[PRODUCT + 4]
    x = carray(floats_at(board[PRODUCT]), (rows, depth))
    panels = carray(floats_at(board[PRODUCT + 3]), (count, depth, WIDTH))
    out = carray(floats_at(board[PRODUCT + 5]), (rows, count * WIDTH))
    counter = carray(integers_at(board[PRODUCT + 7]), (1,))
    multiply(x, panels, out, board[PRODUCT + 6], counter)
