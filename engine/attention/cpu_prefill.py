"""Backend `cpu`, prefill: many query tokens for each sequence, bound by arithmetic.

Naive: every query token reads its whole context, tokens**2 / 2 rows. Here a tile of queries, times the heads
that share a kv head, reads each tile of keys once. Scores = K . Q^T and sums += P . V are small matrix
products that stay in the first caches. The scores of a key lie side by side for all rows of queries, so the
softmax takes a vector of rows at a time, and no matrix is turned but Q, once for all its tiles of keys.
"""

from typing import Any

import numpy as np

from engine.attention.cpu_jit import compiled
from engine.attention.cpu_products import add_matrix_product
from engine.attention.cpu_rows import ONE, UNROLL, ZERO, f32, load_head
from engine.attention.cpu_softmax import (
    add_seen,
    has_only_numbers,
    hide_keys,
    soften_keys,
    stretch_keys,
    weigh_keys,
)
from engine.attention.cpu_tiles import TILE, fill, locate, round_up
from engine.attention.cpu_vectors import LANES

NUM_ROWS = 4 * LANES  # query tokens times heads of a group in a tile, or one token where the group is larger


@compiled
def prefill_tiles(
    first: int, last: int, tasks: Any, query: Any, keys: Any, values: Any, key_scales: Any, value_scales: Any,
    strides: Any, table: Any, block_size: int, sinks: int, window: int, until: Any,
    softcap: float, slopes: Any, out: Any,
) -> None:  # fmt: skip
    """Tasks [first, last): attention of one tile of query tokens of one sequence, for one kv head.

    tasks int64 [n, 5]: sequence, kv head, first query row, end, position of that first row.
    query and out float32 [num_tokens, num_heads, head_dim], the query scaled.
    """
    head_dim, group = query.shape[2], slopes.shape[1]
    num_rows = (max(NUM_ROWS // group, 1) * group + LANES - 1) // LANES * LANES
    padded_dim = (head_dim + LANES - 1) // LANES * LANES
    offsets = np.empty((3, TILE), np.int64)
    key_offsets, value_offsets, scale_offsets = offsets[0], offsets[1], offsets[2]
    positions, positions_of = np.empty(TILE, np.int64), np.empty(num_rows, np.int64)
    queries = np.zeros((head_dim, num_rows), f32)  # row r is head r % group of token r // group
    tile_keys, tile_values = np.zeros((TILE, head_dim), f32), np.zeros((TILE, padded_dim), f32)
    scores, sums = np.zeros((TILE, num_rows), f32), np.zeros((num_rows, padded_dim), f32)
    tops, bases, totals = np.empty(num_rows, f32), np.empty(num_rows, f32), np.empty(num_rows, f32)
    rescales, slopes_of = np.empty(num_rows, f32), np.empty(num_rows, f32)
    for task in range(first, last):
        sequence, kv_head, first_row = tasks[task, 0], tasks[task, 1], tasks[task, 2]
        num_used, first_position = (tasks[task, 3] - first_row) * group, tasks[task, 4]
        for r in range(num_rows):  # the rows that are left compute what the first one does
            of = r if r < num_used else 0
            positions_of[r], slopes_of[r] = first_position + of // group, slopes[kv_head, of % group]
            tops[r], totals[r] = f32(-np.inf), ZERO
            for d in range(head_dim):
                queries[d, r] = query[first_row + of // group, kv_head * group + of % group, d]
        fill(sums, ZERO)
        token, stop = np.int64(0), first_position + tasks[task, 3] - first_row
        while token < stop:
            count, token = locate(
                table[sequence], block_size, strides, token, stop, sinks, first_position - window + 1,
                until[sequence], first_position, offsets, positions,
            )  # fmt: skip
            end = round_up(count)
            for t in range(0, count, UNROLL):
                load_head(keys, key_offsets, t, kv_head * strides[0, 2], tile_keys, t, head_dim)
                load_head(values, value_offsets, t, kv_head * strides[1, 2], tile_values, t, head_dim)
            fill(scores, ZERO)
            add_matrix_product(tile_keys, head_dim, 1, queries, head_dim, scores, end)
            stretch_keys(scores, count, key_scales, scale_offsets, kv_head * strides[2, 2])
            soften_keys(scores, positions, count, positions_of, softcap, slopes_of)
            if positions[count - 1] > first_position or window < stop or until.shape[1] > 0:
                hide_keys(scores, positions, count, positions_of, sinks, window, until[sequence])
            weigh_keys(scores, count, tops, bases, totals, rescales)
            stretch_keys(scores, count, value_scales, scale_offsets, kv_head * strides[2, 2])
            for r in range(num_rows):
                if rescales[r] != ONE:
                    for d in range(head_dim):
                        sums[r, d] *= rescales[r]
            if has_only_numbers(tile_values, end):
                # Past `count`, weights are 0 (see weigh_keys) and values repeat: nothing else may enter.
                add_matrix_product(scores, 1, num_rows, tile_values, end, sums, num_rows)
            else:
                add_seen(scores, tile_values, count, sums)
        for r in range(num_used):
            total = totals[r] if totals[r] != ZERO else ONE
            for d in range(head_dim):
                out[first_row + r // group, kv_head * group + r % group, d] = sums[r, d] / total
