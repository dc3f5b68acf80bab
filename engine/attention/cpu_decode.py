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
from engine.attention.cpu_rows import ONE, UNROLL, ZERO, exp, f32, load_tokens
from engine.attention.cpu_tiles import NUM_OFFSETS, TILE, fill, locate, soften, weigh

CHUNK = 256


@compiled
def decode_chunks(
    first: int, last: int, tasks: Any, query: Any, keys: Any, values: Any, strides: Any, is_half: bool,
    codes: Any, table: Any, block_size: int, seq_lens: Any, sinks: int, window: int, softcap: float,
    slopes: Any, sums: Any, tops: Any, totals: Any,
) -> None:  # fmt: skip
    """Tasks [first, last): attention of one query token over one chunk of its context, for all heads.

    tasks int64 [n, 3]: sequence, first token, end. query float32 [num_seqs, num_heads, head_dim], scaled.
    Writes sums [n, num_heads, head_dim] = sum of weight * value, tops (maximum) and totals (sum of weights).
    All heads of a token are taken together, because they lie side by side.
    """
    num_heads, head_dim = query.shape[1], query.shape[2]
    num_kv_heads = num_heads // slopes.shape[1]
    group = slopes.shape[1]
    key_offsets, value_offsets = np.empty(NUM_OFFSETS, np.int64), np.empty(NUM_OFFSETS, np.int64)
    positions = np.empty(TILE, np.int64)
    scores = np.empty((num_heads, TILE), f32)
    rows = np.empty((num_kv_heads * UNROLL, head_dim), f32)
    key_head_stride, value_head_stride = strides[0, 2], strides[1, 2]
    for task in range(first, last):
        sequence, token, stop = tasks[task, 0], tasks[task, 1], tasks[task, 2]
        position = seq_lens[sequence] - 1
        fill(sums[task], ZERO)
        for head in range(num_heads):
            tops[task, head], totals[task, head] = f32(-np.inf), ZERO
        while token < stop:
            count, token = locate(
                table[sequence], block_size, strides, token, stop, sinks, position - window + 1,
                key_offsets, value_offsets, positions,
            )  # fmt: skip
            for t in range(0, count, UNROLL):
                load_tokens(keys, key_offsets, t, key_head_stride, is_half, codes, rows, num_kv_heads)
                for kv_head in range(num_kv_heads):
                    at = kv_head * UNROLL
                    for head in range(kv_head * group, kv_head * group + group):
                        s0 = s1 = s2 = s3 = ZERO
                        for d in range(head_dim):
                            s0 += query[sequence, head, d] * rows[at, d]
                            s1 += query[sequence, head, d] * rows[at + 1, d]
                            s2 += query[sequence, head, d] * rows[at + 2, d]
                            s3 += query[sequence, head, d] * rows[at + 3, d]
                        scores[head, t], scores[head, t + 1] = s0, s1
                        scores[head, t + 2], scores[head, t + 3] = s2, s3
            for head in range(num_heads):
                soften(scores[head], positions, count, position, softcap, slopes[head // group, head % group])
                tops[task, head], total, rescale = weigh(scores[head], count, tops[task, head])
                totals[task, head] = totals[task, head] * rescale + total
                if rescale != ONE:
                    for d in range(head_dim):
                        sums[task, head, d] *= rescale
            for t in range(0, count, UNROLL):
                load_tokens(values, value_offsets, t, value_head_stride, is_half, codes, rows, num_kv_heads)
                for kv_head in range(num_kv_heads):
                    at = kv_head * UNROLL
                    for head in range(kv_head * group, kv_head * group + group):
                        w0, w1 = scores[head, t], scores[head, t + 1]
                        w2, w3 = scores[head, t + 2], scores[head, t + 3]
                        for d in range(head_dim):
                            sums[task, head, d] += (
                                w0 * rows[at, d]
                                + w1 * rows[at + 1, d]
                                + w2 * rows[at + 2, d]
                                + w3 * rows[at + 3, d]
                            )


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
            for task in range(first, last):
                weight = exp(tops[task, head] - highest)
                total += weight * totals[task, head]
                for d in range(out.shape[2]):
                    out[sequence, head, d] += weight * sums[task, head, d]
            if first < last:
                for d in range(out.shape[2]):
                    out[sequence, head, d] /= total
