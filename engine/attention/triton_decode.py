"""Backend `triton`, decode: split-KV attention of one query token for each sequence.

Why. Decoding reads every key and value of the context once and does 4 * group operations with each
element: a GPU does hundreds in the time of one read, so the bytes are all that counts.

Naive, one program per sequence and query head: bytes read = 2 * tokens * num_heads * head_dim * itemsize,
which is the group size too many (8 query heads that share a kv head read it 8 times), by num_seqs *
num_heads programs: 32 for one sequence, on a GPU that runs some 400 at once.

Here one program takes all query heads of a kv head, as the rows of one small matrix product, and one
chunk of the context:

    bytes read     2 * tokens * num_kv_heads * head_dim * itemsize      each key and value once
    bytes written  2 * tokens / chunk * num_heads * (head_dim + 1) * 4  chunks of 256: 1/32 of that at group 4
                   and 2-byte elements; read again by the second kernel, `triton_reduce`

The tile of keys that a program takes per round does not follow the block size: a tile's block ids are
loaded as a vector, and each of its tokens has an address of its own.
"""

# pyright: reportGeneralTypeIssues=false

import triton
import triton.language as tl

from engine.attention.triton_tiles import find_slots, shape_scores, weigh


@triton.jit(do_not_specialize=["num_chunks", "chunk", "window", "sinks"])
def decode_kernel(
    query,  # [num_seqs, num_heads, head_dim]
    keys,  # element (block, slot, kv head, d) at block * k_block + slot * k_slot + kv head * k_head + d
    values,
    table,  # [num_seqs, columns]
    seq_lens,  # int32 [num_seqs]
    slopes,  # float32 [num_heads], or nothing
    k_scale,  # float32 [num_kv_heads], or nothing
    v_scale,
    out,  # [num_seqs, num_heads, head_dim]; unless DIRECT float32 [num_seqs, num_chunks, num_heads, head_dim]
    lse,  # float32 [num_seqs, num_chunks, num_heads]: log2 of the sum of 2**score; -inf if nothing was seen
    q_seq, q_head, k_block, k_slot, k_head, v_block, v_slot, v_head, table_seq, out_seq, out_head,
    num_chunks, chunk, scale, softcap, window, sinks,
    NUM_KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_M: tl.constexpr,  # rows of a tile: query heads of one kv head; at least 16, a power of two
    BLOCK_D: tl.constexpr,  # head_dim, up to a power of two
    TILE: tl.constexpr,  # keys per round
    BLOCK_SIZE: tl.constexpr,
    PAGED: tl.constexpr,
    HAS_WINDOW: tl.constexpr,
    HAS_SOFTCAP: tl.constexpr,
    HAS_ALIBI: tl.constexpr,
    HAS_K_SCALE: tl.constexpr,
    HAS_V_SCALE: tl.constexpr,
    DIRECT: tl.constexpr,  # there is one chunk: write the result itself
    DOT: tl.constexpr,  # dtype of the factors of the products; their sums are float32
):  # fmt: skip
    """Program (sequence * num_chunks + chunk, kv head * row tiles + row tile)."""
    sequence = (tl.program_id(0) // num_chunks).to(tl.int64)
    chunk_index = tl.program_id(0) % num_chunks
    ROW_TILES: tl.constexpr = (GROUP + BLOCK_M - 1) // BLOCK_M
    kv_head = tl.program_id(1) // ROW_TILES
    in_group = (tl.program_id(1) % ROW_TILES) * BLOCK_M + tl.arange(0, BLOCK_M)
    is_row = in_group < GROUP
    head = kv_head * GROUP + in_group
    dims = tl.arange(0, BLOCK_D)
    is_dim = dims < HEAD_DIM

    # [start, stop) is this program's share of [0, length); of it, [0, sinks) and [low, length) are seen
    length = tl.load(seq_lens + sequence)
    start = chunk_index * chunk
    stop = tl.minimum(start + chunk, length)
    low = 0
    if HAS_WINDOW:
        low = tl.maximum(length - window, 0)
        if start >= sinks:
            start = tl.maximum(start, low // TILE * TILE)
    if not DIRECT:  # noqa: SIM102  (a constant: with it, the test inside vanishes)
        if start >= stop:  # past the end, where the second kernel does not look, or outside the window
            row = (sequence * num_chunks + chunk_index) * (NUM_KV_HEADS * GROUP) + head
            tl.store(lse + row, tl.full([BLOCK_M], float("-inf"), tl.float32), mask=is_row)
            return

    q = tl.load(
        query + sequence * q_seq + head[:, None] * q_head + dims,
        mask=is_row[:, None] & is_dim,
        other=0.0,
    ).to(DOT)
    slope = tl.zeros([BLOCK_M], tl.float32)
    if HAS_ALIBI:
        slope = tl.load(slopes + head, mask=is_row, other=0.0)
    if HAS_K_SCALE:
        scale = scale * tl.load(k_scale + kv_head)

    top = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    sums = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    for first in range(start, stop, TILE):
        positions = first + tl.arange(0, TILE)
        is_seen = positions < stop
        if HAS_WINDOW:
            is_seen = is_seen & ((positions >= low) | (positions < sinks))
        block, offset = find_slots(table + sequence * table_seq, positions, is_seen, BLOCK_SIZE, PAGED)
        is_element = is_seen[:, None] & is_dim
        k_at = block * k_block + offset * k_slot + kv_head * k_head
        k = tl.load(keys + k_at[:, None] + dims, mask=is_element, other=0.0).to(DOT)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        distance = (positions - (length - 1))[None, :].to(tl.float32)
        scores = shape_scores(scores, slope, distance, softcap, HAS_SOFTCAP, HAS_ALIBI)
        scores = tl.where(is_seen[None, :], scores, float("-inf"))
        weights, rescale, top, total = weigh(scores, top, total)
        # values that nobody may see are not loaded: 0 * NaN is NaN, so a weight of 0 would not be enough
        v_at = block * v_block + offset * v_slot + kv_head * v_head
        v = tl.load(values + v_at[:, None] + dims, mask=is_element, other=0.0).to(DOT)
        sums = sums * rescale[:, None] + tl.dot(weights.to(DOT), v, input_precision="ieee")

    safe_total = tl.where(total == 0.0, 1.0, total)
    result = sums / safe_total[:, None]
    if HAS_V_SCALE:
        result *= tl.load(v_scale + kv_head)
    if DIRECT:
        at = sequence * out_seq + head * out_head
    else:
        row = (sequence * num_chunks + chunk_index) * (NUM_KV_HEADS * GROUP) + head
        at = row * HEAD_DIM
        tl.store(lse + row, tl.where(total == 0.0, float("-inf"), top + tl.log2(safe_total)), mask=is_row)
    tl.store(out + at[:, None] + dims, result.to(out.dtype.element_ty), mask=is_row[:, None] & is_dim)
