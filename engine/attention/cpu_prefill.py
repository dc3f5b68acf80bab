"""Backend `cpu`, prefill: many query tokens for each sequence, bound by arithmetic.

Naive: every query token reads its whole context, tokens**2 / 2 rows. Here a tile of queries, times the heads
that share a kv head, reads each tile of keys once: scores = Q . K^T and sums += P . V are small matrix
products that stay in the first-level cache.
"""

from typing import Any

import numpy as np

from engine.attention.cpu_jit import compiled
from engine.attention.cpu_rows import ONE, UNROLL, ZERO, f32, load_head
from engine.attention.cpu_tiles import TILE, fill, locate, round_up, soften, stretch, weigh

NUM_ROWS = 32  # query tokens times heads of a group in a tile, or one token where the group is larger


@compiled
def add_product(a: Any, b: Any, depth: int, c: Any) -> None:
    """c += a[:, :depth] @ b[:depth], float32. `a` has an even number of rows, depth is a multiple of 4."""
    for i in range(0, a.shape[0], 2):
        for k in range(0, depth, 4):
            x0, x1, x2, x3 = a[i, k], a[i, k + 1], a[i, k + 2], a[i, k + 3]
            y0, y1, y2, y3 = a[i + 1, k], a[i + 1, k + 1], a[i + 1, k + 2], a[i + 1, k + 3]
            for j in range(b.shape[1]):
                b0, b1, b2, b3 = b[k, j], b[k + 1, j], b[k + 2, j], b[k + 3, j]
                c[i, j] += x0 * b0 + x1 * b1 + x2 * b2 + x3 * b3
                c[i + 1, j] += y0 * b0 + y1 * b1 + y2 * b2 + y3 * b3


@compiled
def hide(scores: Any, positions: Any, count: int, position: int, sinks: int, window: int, until: Any) -> None:
    """-inf for the keys of the tile that the query at `position` does not see."""
    for t in range(count):
        key = positions[t]
        is_dropped = until.shape[0] > 0 and until[key] < position
        if key > position or (key <= position - window and key >= sinks) or is_dropped:
            scores[t] = -np.inf


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
    num_tokens = max(NUM_ROWS // group, 1)
    num_rows = (num_tokens * group + 1) // 2 * 2
    padded_dim = round_up(head_dim)
    offsets = np.empty((3, TILE), np.int64)
    key_offsets, value_offsets, scale_offsets = offsets[0], offsets[1], offsets[2]
    positions = np.empty(TILE, np.int64)
    rows = np.empty((UNROLL, head_dim), f32)
    queries = np.zeros((num_rows, padded_dim), f32)  # row r is head r % group of token r // group
    keys_t, tile_values = np.zeros((padded_dim, TILE), f32), np.zeros((TILE, head_dim), f32)
    scores, sums = np.zeros((num_rows, TILE), f32), np.zeros((num_rows, head_dim), f32)
    tops, totals = np.empty(num_rows, f32), np.empty(num_rows, f32)
    key_head_stride, value_head_stride = strides[0, 2], strides[1, 2]
    for task in range(first, last):
        sequence, kv_head, first_row = tasks[task, 0], tasks[task, 1], tasks[task, 2]
        num_used, first_position = (tasks[task, 3] - first_row) * group, tasks[task, 4]
        for r in range(num_used):
            tops[r], totals[r] = f32(-np.inf), ZERO
            for d in range(head_dim):
                queries[r, d] = query[first_row + r // group, kv_head * group + r % group, d]
                sums[r, d] = ZERO
        token, stop = np.int64(0), first_position + tasks[task, 3] - first_row
        while token < stop:
            count, token = locate(
                table[sequence], block_size, strides, token, stop, sinks, first_position - window + 1,
                until[sequence], first_position, offsets, positions,
            )  # fmt: skip
            for t in range(0, count, UNROLL):
                load_head(keys, key_offsets, t, kv_head * key_head_stride, rows, 0, head_dim)
                for d in range(head_dim):
                    for j in range(UNROLL):
                        keys_t[d, t + j] = rows[j, d]
                load_head(values, value_offsets, t, kv_head * value_head_stride, tile_values, t, head_dim)
            fill(scores, ZERO)
            add_product(queries, keys_t, padded_dim, scores)
            for r in range(num_used):
                position = first_position + r // group
                stretch(scores[r], count, key_scales, scale_offsets, kv_head * strides[2, 2])
                soften(scores[r], positions, count, position, softcap, slopes[kv_head, r % group])
                hide(scores[r], positions, count, position, sinks, window, until[sequence])
                tops[r], total, rescale = weigh(scores[r], count, tops[r])
                totals[r] = totals[r] * rescale + total
                stretch(scores[r], count, value_scales, scale_offsets, kv_head * strides[2, 2])
                if rescale != ONE:
                    for d in range(head_dim):
                        sums[r, d] *= rescale
            # Past `count`, weights are 0 (see weigh) and values repeat: nothing else may enter the sums.
            add_product(scores, tile_values, round_up(count), sums)
        for r in range(num_used):
            total = totals[r] if totals[r] != ZERO else ONE
            for d in range(head_dim):
                out[first_row + r // group, kv_head * group + r % group, d] = sums[r, d] / total
