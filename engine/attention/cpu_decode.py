"""Backend `cpu`, decode: one query token for each sequence, bound by reading the context once.

Naive, as gather + scaled_dot_product_attention: reads the context (2 * tokens * kv heads * head_dim
elements), writes a copy of it, reads the copy: three passes where one is needed. Here the blocks are
read where they lie, through the block table; what else moves is one sum per chunk and head,
1 / CHUNK of the context times the group size.

A sequence is cut into chunks of CHUNK tokens whatever the batch and the number of threads, so that neither
changes a bit of its result.
"""

from typing import Any

import numpy as np

from engine.attention.cpu_heads import add_tokens, score_tokens
from engine.attention.cpu_jit import compiled
from engine.attention.cpu_rows import ONE, UNROLL, ZERO, ask_for, exp, f32, rows_of
from engine.attention.cpu_tiles import TILE, fill, locate, round_up, soften, stretch, weigh

CHUNK = 256


@compiled
def decode_chunks(
    first: int, last: int, tasks: Any, query: Any, keys: Any, values: Any, key_scales: Any, value_scales: Any,
    strides: Any, codes: Any, table: Any, block_size: int, seq_lens: Any, sinks: int,
    window: int, until: Any, softcap: float, slopes: Any, sums: Any, tops: Any, totals: Any,
) -> None:  # fmt: skip
    """Tasks [first, last): attention of one query token over one chunk of its context, for all heads.

    tasks int64 [n, 3]: sequence, first token, end. query float32 [num_seqs, num_heads, head_dim], scaled.
    Writes sums [n, num_heads, head_dim] = sum of weight * value, tops (maximum) and totals (sum of weights).
    All heads of a token are taken together, because they lie side by side. While the keys of a tile are
    multiplied, memory is asked for its values, and meanwhile for the keys of the next: little at a time,
    since a core can have only so many lines on their way, and waits before it asks for another.
    """
    num_heads, head_dim = query.shape[1], query.shape[2]
    num_kv_heads = num_heads // slopes.shape[1]
    group = slopes.shape[1]
    offsets = np.empty((2, 3, TILE), np.int64)  # of this tile and of the next, by turns
    positions = np.empty((2, TILE), np.int64)
    scores = np.empty((num_heads, TILE), f32)
    rows, row_starts = np.empty((num_kv_heads * UNROLL, head_dim), f32), np.arange(UNROLL) * head_dim
    key_stride, value_stride, scale_stride = strides[0, 2], strides[1, 2], strides[2, 2]
    for task in range(first, last):
        fill(sums[task], ZERO)
        for head in range(num_heads):
            tops[task, head], totals[task, head] = f32(-np.inf), ZERO
    side = 0
    count, task, token = next_tile(
        first, tasks[first, 1], last, tasks, table, block_size, strides, seq_lens, sinks, window, until,
        offsets[0], positions[0],
    )  # fmt: skip
    while count > 0:
        next_count, next_task, token = next_tile(
            task, token, last, tasks, table, block_size, strides, seq_lens, sinks, window, until,
            offsets[1 - side], positions[1 - side],
        )  # fmt: skip
        key_offsets, value_offsets, scale_offsets = offsets[side, 0], offsets[side, 1], offsets[side, 2]
        sequence, own_sums = tasks[task, 0], sums[task]
        position, queries = seq_lens[sequence] - 1, query[sequence]
        end = round_up(count)
        score_tokens(
            queries, keys, key_offsets, 0, key_stride, group, scores, 0, end, end,
            values, value_offsets, value_stride, end,
        )  # fmt: skip
        for head in range(num_heads):
            scale_at = head // group * scale_stride
            stretch(scores[head], count, key_scales, scale_offsets, scale_at)
            slope = slopes[head // group, head % group]
            soften(scores[head], positions[side], count, position, softcap, slope)
            tops[task, head], total, rescale = weigh(scores[head], count, tops[task, head])
            totals[task, head] = totals[task, head] * rescale + total
            stretch(scores[head], count, value_scales, scale_offsets, scale_at)
            if rescale != ONE:
                for d in range(head_dim):
                    own_sums[head, d] *= rescale
        add_tokens(
            own_sums, values, value_offsets, 0, value_stride, group, scores, 0, end, end,
            keys, offsets[1 - side, 0], key_stride, round_up(next_count),
        )  # fmt: skip
        side, count, task = 1 - side, next_count, next_task


@compiled
def next_tile(
    task: int, token: int, last: int, tasks: Any, table: Any, block_size: int, strides: Any, seq_lens: Any,
    sinks: int, window: int, until: Any, offsets: Any, positions: Any,
) -> tuple[int, int, int]:  # fmt: skip
    """The next tile with a visible token, from `token` of `task` on: how many it has, its task, and the
    token to go on from. 0 when the tasks before `last` have none."""
    while task < last:
        sequence, stop = tasks[task, 0], tasks[task, 2]
        if token < stop:
            position = seq_lens[sequence] - 1
            count, token = locate(
                table[sequence], block_size, strides, token, stop, sinks, position - window + 1,
                until[sequence], position, offsets, positions,
            )  # fmt: skip
            if count > 0:
                return count, task, token
        task += 1
        if task < last:
            token = tasks[task, 1]
    return 0, task, token


@compiled
def merge_chunks(first_task: Any, sums: Any, tops: Any, totals: Any, out: Any) -> None:
    """out[i, head] = the chunks [first_task[i], first_task[i + 1]) of sequence i put together; 0 if none."""
    for sequence in range(out.shape[0]):
        first, last = first_task[sequence], first_task[sequence + 1]
        for head in range(out.shape[1]):
            for d in range(out.shape[2]):
                out[sequence, head, d] = ZERO
            highest, total = f32(-np.inf), ZERO
            for task in range(first, last):
                highest = max(highest, tops[task, head])
            if highest == -np.inf:  # it sees nothing
                continue
            for task in range(first, last):
                weight = exp(tops[task, head] - highest)
                total += weight * totals[task, head]
                for d in range(out.shape[2]):
                    out[sequence, head, d] += weight * sums[task, head, d]
            if first < last:
                for d in range(out.shape[2]):
                    out[sequence, head, d] /= total
