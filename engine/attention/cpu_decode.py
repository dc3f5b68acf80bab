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

from engine.attention.cpu_heads import read_tile
from engine.attention.cpu_jit import compiled
from engine.attention.cpu_rows import ONE, ZERO, exp, f32
from engine.attention.cpu_softmax import soften, stretch, weigh
from engine.attention.cpu_tiles import TILE, fill, locate, round_up

CHUNK = 256


@compiled
def decode_chunks(
    first: int, last: int, tasks: Any, query: Any, keys: Any, values: Any, key_scales: Any, value_scales: Any,
    strides: Any, table: Any, block_size: int, seq_lens: Any, sinks: int,
    window: int, until: Any, softcap: float, slopes: Any, sums: Any, tops: Any, totals: Any,
) -> None:  # fmt: skip
    """Tasks [first, last): attention of one query token over one chunk of its context, for all heads.

    tasks int64 [n, 3]: sequence, first token, end. query float32 [num_seqs, num_heads, head_dim], scaled.
    Writes sums [n, num_heads, head_dim] = sum of weight * value, tops (maximum) and totals (sum of weights).
    All heads of a token are taken together, because they lie side by side, and tile after tile without a
    pause: while the last rows of one are multiplied, memory is asked for the first of the next.
    """
    num_heads, head_dim = query.shape[1], query.shape[2]
    group = slopes.shape[1]
    offsets = np.empty((2, 3, TILE), np.int64)  # of this tile and of the next, by turns
    positions = np.empty((2, TILE), np.int64)
    scores = np.empty((num_heads, TILE), f32)
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
        read_tile(
            False, queries, keys, key_offsets, strides[0, 2], end, values, value_offsets, strides[1, 2],
            count, group, scores,
        )  # fmt: skip
        for head in range(num_heads):
            scale_at = head // group * strides[2, 2]
            stretch(scores[head], count, key_scales, scale_offsets, scale_at)
            slope = slopes[head // group, head % group]
            soften(scores[head], positions[side], count, position, softcap, slope)
            tops[task, head], total, rescale = weigh(scores[head], count, tops[task, head])
            totals[task, head] = totals[task, head] * rescale + total
            stretch(scores[head], count, value_scales, scale_offsets, scale_at)
            if rescale != ONE:
                for d in range(head_dim):
                    own_sums[head, d] *= rescale
        read_tile(
            True, own_sums, values, value_offsets, strides[1, 2], end, keys, offsets[1 - side, 0],
            strides[0, 2], next_count, group, scores,
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
            base = ZERO if highest == -np.inf else highest  # sees nothing, or nothing that is a number
            for task in range(first, last):
                weight = exp(tops[task, head] - base)
                total += weight * totals[task, head]
                for d in range(out.shape[2]):
                    out[sequence, head, d] += weight * sums[task, head, d]
            if total != ZERO:
                for d in range(out.shape[2]):
                    out[sequence, head, d] /= total
