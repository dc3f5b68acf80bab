"""Backend `triton`, decode: split-KV attention of one query token for each sequence.

Why. Decoding reads every key and value of the context once and does 4 * group operations with each
element: a GPU does hundreds in the time of one read, so the bytes are all that counts.

Naive, one program per sequence and query head: bytes read = 2 * tokens * num_heads * head_dim * itemsize,
which is the group size too many (8 query heads that share a kv head read it 8 times), by num_seqs *
num_heads programs: 32 for one sequence, on a GPU that runs some 400 at once.

Here one program takes all query heads of a kv head, as the rows of one small matrix product, and one
chunk of the context:

    bytes read     2 * tokens * num_kv_heads * head_dim * itemsize      each key and value once
    bytes written  tokens / chunk * num_heads * (head_dim + 1) * 4      chunks of 256: 1/32 of that at group 4
                   and 2-byte elements; read again by the second kernel, `triton_reduce`

The tile of keys that a program takes per round does not follow the block size: a tile's block ids are
loaded as a vector, and each of its tokens has an address of its own.

Up to QUERIES query tokens of a sequence (drafts to be verified, a short chunk) are rows of the same tile;
each sees the keys up to its own position. The prefill kernel would give their whole context to one program.

How a sequence is cut depends on its own lengths and nothing else in the batch, so that its result does not
either: chunks of `min_tiles` tiles, larger ones where that would give more than `max_chunks`.
"""

# pyright: reportGeneralTypeIssues=false

import triton
import triton.language as tl

from engine.attention.triton_tiles import attend_tile, count_tiles, first_unit


@triton.jit
def cut(
    length, num_queries, window, sinks, min_tiles, max_chunks, TILE: tl.constexpr, HAS_WINDOW: tl.constexpr
):
    """Of one sequence: first key in a window, sink tiles, where other tiles begin, tiles, tiles a chunk."""
    low = 0
    if HAS_WINDOW:
        low = tl.maximum(length - num_queries + 1 - window, 0)
    sink_tiles, aligned, num_tiles = count_tiles(low, length, sinks, TILE, HAS_WINDOW)
    return low, sink_tiles, aligned, num_tiles, tl.maximum(min_tiles, tl.cdiv(num_tiles, max_chunks))


@triton.jit
def rows_of(query_start_loc, sequence, QUERIES: tl.constexpr):
    """First query row of a sequence, int64, and how many it has."""
    if QUERIES == 1:
        first, count = sequence, 1
    else:
        start = tl.load(query_start_loc + sequence)
        first, count = start.to(tl.int64), tl.load(query_start_loc + sequence + 1) - start
    return first, count


@triton.jit(
    do_not_specialize=["table_seq", "until_seq", "num_chunks", "min_tiles", "max_chunks", "window", "sinks"],
    do_not_specialize_on_alignment=["table", "seq_lens", "query_start_loc", "seen_until"],
)
def decode_kernel(
    query,  # [num_rows, num_heads, head_dim]: one row for each sequence, or as query_start_loc says
    keys,  # element (block, slot, kv head, d) at block * k_block + slot * k_slot + kv head * k_head + d
    values,
    key_scales,  # float32, element (block, slot, kv head) likewise; or nothing
    value_scales,
    table,  # [num_seqs, columns]
    seq_lens,  # int32 [num_seqs]
    query_start_loc,  # int32 [num_seqs + 1]; nothing if QUERIES is 1
    seen_until,  # int32 [num_seqs, tokens], or nothing
    slopes,  # float32 [num_heads], or nothing
    k_scale,  # float32 [num_kv_heads], or nothing
    v_scale,
    out,  # as query
    partial,  # float32 [num_rows, num_chunks, num_heads, head_dim]; nothing if DIRECT
    lse,  # float32 [num_rows, num_chunks, num_heads]: log2 of the sum of 2**score; -inf if nothing was seen
    q_row, q_head, k_block, k_slot, k_head, v_block, v_slot, v_head, s_block, s_slot, s_head,
    table_seq, until_seq, out_row, out_head,
    num_chunks, min_tiles, max_chunks, scale, softcap, window, sinks,
    QUERIES: tl.constexpr,  # most query tokens of a sequence
    NUM_KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_M: tl.constexpr,  # row m is head m % GROUP of query token m // GROUP; at least 16, a power of two
    BLOCK_D: tl.constexpr,  # head_dim, up to a power of two
    TILE: tl.constexpr,  # keys per round
    BLOCK_SIZE: tl.constexpr,
    PAGED: tl.constexpr,
    HAS_WINDOW: tl.constexpr,
    HAS_UNTIL: tl.constexpr,
    HAS_SOFTCAP: tl.constexpr,
    HAS_ALIBI: tl.constexpr,
    HAS_K_SCALE: tl.constexpr,
    HAS_V_SCALE: tl.constexpr,
    TOKEN_SCALES: tl.constexpr,
    DIRECT: tl.constexpr,  # no sequence has more than one chunk
    DECODE: tl.constexpr,  # see `to_factor`
    DOT: tl.constexpr,  # dtype of the factors of the products; their sums are float32
):  # fmt: skip
    """Program (sequence * num_chunks + chunk, kv head * row tiles + row tile)."""
    sequence = (tl.program_id(0) // num_chunks).to(tl.int64)
    chunk = tl.program_id(0) % num_chunks
    length = tl.load(seq_lens + sequence)
    first_row, num_queries = rows_of(query_start_loc, sequence, QUERIES)
    low, sink_tiles, aligned, num_tiles, tiles = cut(
        length, num_queries, window, sinks, min_tiles, max_chunks, TILE, HAS_WINDOW
    )
    first_tile = chunk * tiles
    if (first_tile >= num_tiles) & (chunk > 0):  # chunk 0 of an empty sequence writes its zeros
        return
    ROW_TILES: tl.constexpr = (QUERIES * GROUP + BLOCK_M - 1) // BLOCK_M
    kv_head = tl.program_id(1) // ROW_TILES
    row_tile = tl.program_id(1) % ROW_TILES * BLOCK_M
    if row_tile >= num_queries * GROUP:
        return
    rows = row_tile + tl.arange(0, BLOCK_M)
    is_row = rows < num_queries * GROUP
    head = kv_head * GROUP + rows % GROUP
    row = first_row + rows // GROUP
    position = length - num_queries + rows // GROUP  # of each row's query in its sequence
    dims = tl.arange(0, BLOCK_D)
    is_element = is_row[:, None] & (dims < HEAD_DIM)
    q_at = row[:, None] * q_row + head[:, None] * q_head + dims
    q = tl.load(query + q_at, mask=is_element, other=0.0).to(DOT)
    slope = tl.zeros([BLOCK_M], tl.float32)
    if HAS_ALIBI:
        slope = tl.load(slopes + head, mask=is_row, other=0.0)
    if HAS_K_SCALE:
        scale = scale * tl.load(k_scale + kv_head)
    place = table + sequence * table_seq
    if not PAGED:
        place = tl.load(place)

    top = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    sums = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    unit = first_unit(TOKEN_SCALES)
    for tile in range(first_tile, tl.minimum(first_tile + tiles, num_tiles)):
        first = tile * TILE
        if HAS_WINDOW:  # tiles of sinks, then those of the window
            first = tl.where(tile < sink_tiles, first, aligned + (tile - sink_tiles) * TILE)
        positions = first + tl.arange(0, TILE)
        is_read = positions < length
        if HAS_WINDOW:
            is_read = is_read & ((positions >= low) | (positions < sinks))
        if HAS_UNTIL:
            until = tl.load(seen_until + sequence * until_seq + positions, mask=is_read, other=-1)
            is_read = is_read & (until >= length - num_queries)
        is_seen = is_read[None, :]
        distance = (positions - (length - 1))[None, :]
        if QUERIES > 1:
            distance = positions[None, :] - position[:, None]
            is_seen = is_seen & (distance <= 0)
            if HAS_WINDOW:
                is_seen = is_seen & ((distance > -window) | (positions < sinks)[None, :])
            if HAS_UNTIL:
                is_seen = is_seen & (until[None, :] >= position[:, None])
        top, total, sums, unit = attend_tile(
            q, top, total, sums, unit, keys, values, key_scales, value_scales, place, kv_head,
            k_block, k_slot, k_head, v_block, v_slot, v_head, s_block, s_slot, s_head,
            positions, is_read, is_seen, distance, slope, scale, softcap,
            HEAD_DIM, BLOCK_D, BLOCK_SIZE, PAGED, HAS_SOFTCAP, HAS_ALIBI, TOKEN_SCALES, DECODE, DOT,
            MASKED=True,
        )  # fmt: skip

    safe_total = tl.where(total == 0.0, 1.0, total)
    result = sums / safe_total[:, None]
    if TOKEN_SCALES:
        result *= unit
    if HAS_V_SCALE:
        result *= tl.load(v_scale + kv_head)
    if DIRECT or num_tiles <= tiles:  # the whole sequence: the second kernel leaves it alone
        at = out + row[:, None] * out_row + head[:, None] * out_head + dims
        tl.store(at, result.to(out.dtype.element_ty), mask=is_element)
    else:
        part = (row * num_chunks + chunk) * (NUM_KV_HEADS * GROUP) + head
        tl.store(partial + part[:, None] * HEAD_DIM + dims, result, mask=is_element)
        tl.store(lse + part, tl.where(total == 0.0, float("-inf"), top + tl.log2(safe_total)), mask=is_row)
