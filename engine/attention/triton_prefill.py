"""Backend `triton`, prefill: many query tokens for each sequence.

Why. A query token alone would read its whole context: tokens**2 / 2 rows of keys. A tile of query tokens,
times the heads that share a kv head, reads each tile of keys once for all its BLOCK_M rows: the bytes fall
by BLOCK_M / group and the two matrix products become what counts.

The grid must not depend on lengths that only the GPU knows. It has num_tokens // BLOCK_Q + num_seqs
programs, enough for any split of the tokens among the sequences; each finds its sequence by bisection.
They go from the last tile to the first: the later a query, the more keys it sees, and the longest work should
not start last.

Most tiles of keys are seen by every row, and a loop without masks takes those; a second one takes the
tiles where the window of some row begins or its own position lies.
"""

# pyright: reportGeneralTypeIssues=false

import triton
import triton.language as tl

from engine.attention.triton_tiles import attend_tile, count_tiles, first_unit


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


@triton.jit(
    do_not_specialize=["table_seq", "until_seq", "num_seqs", "window", "sinks"],
    do_not_specialize_on_alignment=["table", "seq_lens", "query_start_loc", "seen_until"],
)
def prefill_kernel(
    query,  # [num_tokens, num_heads, head_dim]
    keys,
    values,
    key_scales,
    value_scales,
    table,
    seq_lens,
    query_start_loc,  # int32 [num_seqs + 1]
    seen_until,
    slopes,
    k_scale,
    v_scale,
    out,  # [num_tokens, num_heads, head_dim]
    q_token, q_head, k_block, k_slot, k_head, v_block, v_slot, v_head, s_block, s_slot, s_head,
    table_seq, until_seq, out_token, out_head,
    num_seqs, scale, softcap, window, sinks,
    GROUP: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_M: tl.constexpr,  # row m is head m % GROUP of query token m // GROUP
    BLOCK_D: tl.constexpr,
    TILE: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    PAGED: tl.constexpr,
    HAS_WINDOW: tl.constexpr,
    HAS_UNTIL: tl.constexpr,
    HAS_SOFTCAP: tl.constexpr,
    HAS_ALIBI: tl.constexpr,
    HAS_K_SCALE: tl.constexpr,
    HAS_V_SCALE: tl.constexpr,
    TOKEN_SCALES: tl.constexpr,
    DECODE: tl.constexpr,
    DOT: tl.constexpr,
):  # fmt: skip
    """Program (tile of query tokens, kv head). Arguments without a comment are as in `decode_kernel`."""
    BLOCK_Q: tl.constexpr = BLOCK_M // GROUP
    tile_index = tl.num_programs(0) - 1 - tl.program_id(0)
    sequence = find_sequence(query_start_loc, tile_index, num_seqs, BLOCK_Q)
    start_row = tl.load(query_start_loc + sequence)
    num_queries = tl.load(query_start_loc + sequence + 1) - start_row
    first_query = (tile_index - (start_row // BLOCK_Q + sequence)) * BLOCK_Q
    if first_query >= num_queries:
        return
    kv_head = tl.program_id(1)
    length = tl.load(seq_lens + sequence)
    place = table + sequence.to(tl.int64) * table_seq
    if not PAGED:
        place = tl.load(place)

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

    # Keys that some row sees: [0, sinks) and [low, stop). Keys that every row sees: [full_low, full_high), in
    # whole tiles. The tiles with a mask are the sinks', those before full_low, and those from full_high on.
    first_position = length - num_queries + first_query
    stop = tl.minimum(first_position + BLOCK_Q, length)
    low = 0
    if HAS_WINDOW:
        low = tl.maximum(first_position - window + 1, 0)
    sink_tiles, aligned, _ = count_tiles(low, stop, sinks, TILE, HAS_WINDOW)
    full_high = tl.maximum((first_position + 1) // TILE * TILE, aligned)
    full_low = aligned
    if HAS_WINDOW:
        full_low = tl.minimum(tl.cdiv(tl.maximum(stop - window, 0), TILE) * TILE, full_high)
        full_low = tl.maximum(full_low, aligned)
    if HAS_UNTIL:
        full_low = aligned
        full_high = aligned
    front_tiles = sink_tiles + (full_low - aligned) // TILE

    top = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    sums = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    unit = first_unit(TOKEN_SCALES)
    for first in range(full_low, full_high, TILE):
        positions = first + tl.arange(0, TILE)
        is_all = positions < stop  # not looked at
        top, total, sums, unit = attend_tile(
            q, top, total, sums, unit, keys, values, key_scales, value_scales, place, kv_head,
            k_block, k_slot, k_head, v_block, v_slot, v_head, s_block, s_slot, s_head,
            positions, is_all, is_all[None, :], positions[None, :] - position[:, None], slope, scale, softcap,
            HEAD_DIM, BLOCK_D, BLOCK_SIZE, PAGED, HAS_SOFTCAP, HAS_ALIBI, TOKEN_SCALES, DECODE, DOT,
            MASKED=False,
        )  # fmt: skip
    for tile in range(front_tiles + tl.cdiv(tl.maximum(stop - full_high, 0), TILE)):
        first = full_high + (tile - front_tiles) * TILE
        if HAS_WINDOW:
            front = tl.where(tile < sink_tiles, tile * TILE, aligned + (tile - sink_tiles) * TILE)
            first = tl.where(tile < front_tiles, front, first)
        positions = first + tl.arange(0, TILE)
        is_read = positions < stop
        is_seen = positions[None, :] <= position[:, None]
        if HAS_WINDOW:
            is_sink = positions < sinks
            is_read = is_read & ((positions >= low) | is_sink)
            is_seen = is_seen & ((positions[None, :] > position[:, None] - window) | is_sink[None, :])
        if HAS_UNTIL:
            until = tl.load(
                seen_until + sequence.to(tl.int64) * until_seq + positions, mask=is_read, other=-1
            )
            is_read = is_read & (until >= first_position)
            is_seen = is_seen & (until[None, :] >= position[:, None])
        top, total, sums, unit = attend_tile(
            q, top, total, sums, unit, keys, values, key_scales, value_scales, place, kv_head,
            k_block, k_slot, k_head, v_block, v_slot, v_head, s_block, s_slot, s_head,
            positions, is_read, is_seen & is_read[None, :], positions[None, :] - position[:, None],
            slope, scale, softcap,
            HEAD_DIM, BLOCK_D, BLOCK_SIZE, PAGED, HAS_SOFTCAP, HAS_ALIBI, TOKEN_SCALES, DECODE, DOT,
            MASKED=True,
        )  # fmt: skip

    result = sums / tl.where(total == 0.0, 1.0, total)[:, None]
    if TOKEN_SCALES:
        result *= unit
    if HAS_V_SCALE:
        result *= tl.load(v_scale + kv_head)
    at = token * out_token + head * out_head
    tl.store(out + at[:, None] + dims, result.to(out.dtype.element_ty), mask=is_result)
