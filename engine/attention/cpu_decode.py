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

from engine.attention.cpu_jit import compiled
from engine.attention.cpu_rows import ONE, UNROLL, ZERO, ask_for_tokens, exp, f32, load_tokens
from engine.attention.cpu_tiles import NUM_OFFSETS, TILE, fill, locate, round_up, soften, stretch, weigh

CHUNK = 256
AHEAD_BYTES = 1 << 14  # asked of memory before they are read: more than a block, so that none is waited for


# Two heads at a time: a number of a row that is in a register serves both, and eight sums that do not wait
# for one another keep both multipliers of a core busy; four leave one idle.


@compiled
def score_two(queries: Any, head: int, rows: Any, at: int, scores: Any, t: int) -> None:
    """scores[head : head + 2, t : t + UNROLL] = queries . rows[at : at + UNROLL]."""
    s0 = s1 = s2 = s3 = r0 = r1 = r2 = r3 = ZERO
    for d in range(queries.shape[1]):
        x, y = queries[head, d], queries[head + 1, d]
        k0, k1, k2, k3 = rows[at, d], rows[at + 1, d], rows[at + 2, d], rows[at + 3, d]
        s0 += x * k0
        s1 += x * k1
        s2 += x * k2
        s3 += x * k3
        r0 += y * k0
        r1 += y * k1
        r2 += y * k2
        r3 += y * k3
    scores[head, t], scores[head, t + 1], scores[head, t + 2], scores[head, t + 3] = s0, s1, s2, s3
    scores[head + 1, t], scores[head + 1, t + 1] = r0, r1
    scores[head + 1, t + 2], scores[head + 1, t + 3] = r2, r3


@compiled
def score_one(queries: Any, head: int, rows: Any, at: int, scores: Any, t: int) -> None:
    """The same for the last head of an odd group."""
    s0 = s1 = s2 = s3 = ZERO
    for d in range(queries.shape[1]):
        x = queries[head, d]
        s0 += x * rows[at, d]
        s1 += x * rows[at + 1, d]
        s2 += x * rows[at + 2, d]
        s3 += x * rows[at + 3, d]
    scores[head, t], scores[head, t + 1], scores[head, t + 2], scores[head, t + 3] = s0, s1, s2, s3


@compiled
def add_two(sums: Any, head: int, rows: Any, at: int, weights: Any, t: int) -> None:
    """sums[head : head + 2] += weights[head : head + 2, t : t + UNROLL] @ rows[at : at + UNROLL]."""
    w0, w1, w2, w3 = weights[head, t], weights[head, t + 1], weights[head, t + 2], weights[head, t + 3]
    u0, u1 = weights[head + 1, t], weights[head + 1, t + 1]
    u2, u3 = weights[head + 1, t + 2], weights[head + 1, t + 3]
    for d in range(sums.shape[1]):
        v0, v1, v2, v3 = rows[at, d], rows[at + 1, d], rows[at + 2, d], rows[at + 3, d]
        sums[head, d] += w0 * v0 + w1 * v1 + w2 * v2 + w3 * v3
        sums[head + 1, d] += u0 * v0 + u1 * v1 + u2 * v2 + u3 * v3


@compiled
def add_one(sums: Any, head: int, rows: Any, at: int, weights: Any, t: int) -> None:
    """The same for the last head of an odd group."""
    w0, w1, w2, w3 = weights[head, t], weights[head, t + 1], weights[head, t + 2], weights[head, t + 3]
    for d in range(sums.shape[1]):
        sums[head, d] += w0 * rows[at, d] + w1 * rows[at + 1, d] + w2 * rows[at + 2, d] + w3 * rows[at + 3, d]


@compiled
def decode_chunks(
    first: int, last: int, tasks: Any, query: Any, keys: Any, values: Any, key_scales: Any, value_scales: Any,
    strides: Any, is_half: bool, codes: Any, table: Any, block_size: int, seq_lens: Any, sinks: int,
    window: int, until: Any, softcap: float, slopes: Any, sums: Any, tops: Any, totals: Any,
) -> None:  # fmt: skip
    """Tasks [first, last): attention of one query token over one chunk of its context, for all heads.

    tasks int64 [n, 3]: sequence, first token, end. query float32 [num_seqs, num_heads, head_dim], scaled.
    Writes sums [n, num_heads, head_dim] = sum of weight * value, tops (maximum) and totals (sum of weights).
    All heads of a token are taken together, because they lie side by side.
    """
    num_heads, head_dim = query.shape[1], query.shape[2]
    num_kv_heads = num_heads // slopes.shape[1]
    group = slopes.shape[1]
    offsets = np.empty((2, 3, NUM_OFFSETS), np.int64)  # of this tile and of the next, by turns
    positions = np.empty((2, TILE), np.int64)
    scores = np.empty((num_heads, TILE), f32)
    rows = np.empty((num_kv_heads * UNROLL, head_dim), f32)
    key_stride, value_stride, scale_stride = strides[0, 2], strides[1, 2], strides[2, 2]
    ahead = round_up(min(AHEAD_BYTES // (num_kv_heads * head_dim * keys.itemsize) + 1, TILE))
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
        for t in range(0, end, UNROLL):
            if t + ahead < end:
                ask_for_tokens(keys, key_offsets, t + ahead, key_stride, head_dim, num_kv_heads)
            elif t + ahead - end < end:
                ask_for_tokens(values, value_offsets, t + ahead - end, value_stride, head_dim, num_kv_heads)
            load_tokens(keys, key_offsets, t, key_stride, is_half, codes, rows, num_kv_heads)
            for kv_head in range(num_kv_heads):
                head, stop = kv_head * group, kv_head * group + group
                while head + 1 < stop:
                    score_two(queries, head, rows, kv_head * UNROLL, scores, t)
                    head += 2
                if head < stop:
                    score_one(queries, head, rows, kv_head * UNROLL, scores, t)
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
        for t in range(0, end, UNROLL):
            if t + ahead < end:
                ask_for_tokens(values, value_offsets, t + ahead, value_stride, head_dim, num_kv_heads)
            elif t + ahead - end < next_count:
                next_keys = offsets[1 - side, 0]
                ask_for_tokens(keys, next_keys, t + ahead - end, key_stride, head_dim, num_kv_heads)
            load_tokens(values, value_offsets, t, value_stride, is_half, codes, rows, num_kv_heads)
            for kv_head in range(num_kv_heads):
                head, stop = kv_head * group, kv_head * group + group
                while head + 1 < stop:
                    add_two(own_sums, head, rows, kv_head * UNROLL, scores, t)
                    head += 2
                if head < stop:
                    add_one(own_sums, head, rows, kv_head * UNROLL, scores, t)
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
