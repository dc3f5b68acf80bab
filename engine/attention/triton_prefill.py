"""Backend `triton`, prefill: many query tokens for each sequence.

Why. A query token alone would read its whole context: tokens**2 / 2 rows of keys. A tile of query tokens,
times the heads that share a kv head, reads each tile of keys once for all its BLOCK_M rows: the bytes fall
by BLOCK_M / group and the two matrix products become what counts.

The grid must not depend on lengths that only the GPU knows. It has num_tokens // BLOCK_Q + num_seqs
programs, enough for any split of the tokens among the sequences; each finds its sequence by bisection.
"""

# pyright: reportGeneralTypeIssues=false

import triton
import triton.language as tl

from engine.attention.triton_tiles import find_slots, shape_scores, weigh


@triton.jit
def find_sequence(query_start_loc, tile, num_seqs, BLOCK_Q: tl.constexpr):
    """The sequence of a tile: sequence i's tiles begin at query_start_loc[i] // BLOCK_Q + i."""
    low, high = 0, num_seqs
    while high - low > 1:
        middle = (low + high) // 2
        if tl.load(query_start_loc + middle) // BLOCK_Q + middle <= tile:
            low = middle
        else:
            high = middle
    return low


@triton.jit(do_not_specialize=["num_seqs", "window", "sinks"])
def prefill_kernel(
    query,  # [num_tokens, num_heads, head_dim]
    keys,
    values,
    table,
    seq_lens,
    query_start_loc,  # int32 [num_seqs + 1]
    slopes,
    k_scale,
    v_scale,
    out,  # [num_tokens, num_heads, head_dim]
    q_token, q_head, k_block, k_slot, k_head, v_block, v_slot, v_head, table_seq, out_token, out_head,
    num_seqs, scale, softcap, window, sinks,
    GROUP: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_M: tl.constexpr,  # row m is head m % GROUP of query token m // GROUP
    BLOCK_D: tl.constexpr,
    TILE: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    PAGED: tl.constexpr,
    HAS_WINDOW: tl.constexpr,
    HAS_SOFTCAP: tl.constexpr,
    HAS_ALIBI: tl.constexpr,
    HAS_K_SCALE: tl.constexpr,
    HAS_V_SCALE: tl.constexpr,
    DOT: tl.constexpr,
):  # fmt: skip
    """Program (tile of query tokens, kv head). Arguments without a comment are as in `decode_kernel`."""
    BLOCK_Q: tl.constexpr = BLOCK_M // GROUP
    sequence = find_sequence(query_start_loc, tl.program_id(0), num_seqs, BLOCK_Q)
    start_row = tl.load(query_start_loc + sequence)
    num_queries = tl.load(query_start_loc + sequence + 1) - start_row
    first_query = (tl.program_id(0) - (start_row // BLOCK_Q + sequence)) * BLOCK_Q
    if first_query >= num_queries:
        return
    kv_head = tl.program_id(1)
    length = tl.load(seq_lens + sequence)
    table_row = table + sequence.to(tl.int64) * table_seq

    rows = tl.arange(0, BLOCK_M)
    query_index = first_query + rows // GROUP
    is_row = (query_index < num_queries) & (rows < BLOCK_Q * GROUP)
    head = kv_head * GROUP + rows % GROUP
    token = (start_row + query_index).to(tl.int64)
    position = length - num_queries + query_index  # of each row's query in its sequence
    dims = tl.arange(0, BLOCK_D)
    is_dim = dims < HEAD_DIM
    is_result = is_row[:, None] & is_dim
    q = tl.load(query + token[:, None] * q_token + head[:, None] * q_head + dims, mask=is_result, other=0.0)
    q = q.to(DOT)
    slope = tl.zeros([BLOCK_M], tl.float32)
    if HAS_ALIBI:
        slope = tl.load(slopes + head, mask=is_row, other=0.0)
    if HAS_K_SCALE:
        scale = scale * tl.load(k_scale + kv_head)

    # keys that some row of the tile sees: [0, sinks) and [low, stop); tiles of keys that hold one of them:
    # the first `sink_tiles`, then those from `aligned` on
    stop = tl.minimum(length - num_queries + first_query + BLOCK_Q, length)
    low = 0
    sink_tiles = 0
    if HAS_WINDOW:
        low = tl.maximum(length - num_queries + first_query - window + 1, 0)
        sink_tiles = tl.cdiv(tl.minimum(sinks, low // TILE * TILE), TILE)
    aligned = low // TILE * TILE

    top = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    sums = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    for tile in range(sink_tiles + tl.cdiv(tl.maximum(stop - aligned, 0), TILE)):
        first = tl.where(tile < sink_tiles, tile * TILE, aligned + (tile - sink_tiles) * TILE)
        positions = first + tl.arange(0, TILE)
        is_read = positions < stop
        is_seen = positions[None, :] <= position[:, None]
        if HAS_WINDOW:
            is_sink = positions < sinks
            is_read = is_read & ((positions >= low) | is_sink)
            is_seen = is_seen & ((positions[None, :] > position[:, None] - window) | is_sink[None, :])
        block, offset = find_slots(table_row, positions, is_read, BLOCK_SIZE, PAGED)
        is_element = is_read[:, None] & is_dim
        k_at = block * k_block + offset * k_slot + kv_head * k_head
        k = tl.load(keys + k_at[:, None] + dims, mask=is_element, other=0.0).to(DOT)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        distance = (positions[None, :] - position[:, None]).to(tl.float32)
        scores = shape_scores(scores, slope, distance, softcap, HAS_SOFTCAP, HAS_ALIBI)
        scores = tl.where(is_seen & is_read[None, :], scores, float("-inf"))
        weights, rescale, top, total = weigh(scores, top, total)
        v_at = block * v_block + offset * v_slot + kv_head * v_head
        v = tl.load(values + v_at[:, None] + dims, mask=is_element, other=0.0).to(DOT)
        sums = sums * rescale[:, None] + tl.dot(weights.to(DOT), v, input_precision="ieee")

    result = sums / tl.where(total == 0.0, 1.0, total)[:, None]
    if HAS_V_SCALE:
        result *= tl.load(v_scale + kv_head)
    at = token * out_token + head * out_head
    tl.store(out + at[:, None] + dims, result.to(out.dtype.element_ty), mask=is_result)
