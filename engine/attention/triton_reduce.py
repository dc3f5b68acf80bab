"""Backend `triton`: puts the chunks of each sequence together.

Chunk c brought an average a_c and the log2 of its weights' sum l_c; the whole is
sum_c 2**(l_c - max) * a_c / sum_c 2**(l_c - max). Chunks are taken 16 at a time and only as many as the
sequence itself has, so that the order of summation, and with it every bit, is the sequence's own.
"""

# pyright: reportGeneralTypeIssues=false

import triton
import triton.language as tl

from engine.attention.triton_decode import cut, rows_of


@triton.jit(
    do_not_specialize=["num_chunks", "min_tiles", "max_chunks", "window", "sinks"],
    do_not_specialize_on_alignment=["seq_lens", "query_start_loc"],
)
def reduce_kernel(
    partial,  # float32 [num_rows, num_chunks, num_heads, head_dim]
    lse,  # float32 [num_rows, num_chunks, num_heads]
    seq_lens,
    query_start_loc,
    out,  # [num_rows, num_heads, head_dim]
    out_row, out_head, num_chunks, min_tiles, max_chunks, window, sinks,
    QUERIES: tl.constexpr,
    NUM_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,
    TILE: tl.constexpr,
    KEY_TILE: tl.constexpr,  # `decode_kernel`'s TILE
    HAS_WINDOW: tl.constexpr,
):  # fmt: skip
    """Program (sequence * QUERIES + query, head)."""
    sequence = (tl.program_id(0) // QUERIES).to(tl.int64)
    first_row, num_queries = rows_of(query_start_loc, sequence, QUERIES)
    query_row = first_row + tl.program_id(0) % QUERIES
    head = tl.program_id(1)
    dims = tl.arange(0, BLOCK_D)
    is_dim = dims < HEAD_DIM
    length = tl.load(seq_lens + sequence)
    _, _, _, num_tiles, tiles = cut(
        length, num_queries, window, sinks, min_tiles, max_chunks, KEY_TILE, HAS_WINDOW
    )
    count = tl.cdiv(num_tiles, tiles)
    if (count <= 1) | (tl.program_id(0) % QUERIES >= num_queries):  # `decode_kernel` wrote the result itself
        return

    top = tl.full([TILE], float("-inf"), tl.float32)
    for first in range(0, count, TILE):
        chunks = first + tl.arange(0, TILE)
        row = (query_row * num_chunks + chunks) * NUM_HEADS + head
        top = tl.maximum(top, tl.load(lse + row, mask=chunks < count, other=float("-inf")))
    highest = tl.max(top, 0)
    base = tl.where(highest == float("-inf"), 0.0, highest)  # all weights were 0: -inf - -inf is NaN

    total = 0.0
    sums = tl.zeros([BLOCK_D], tl.float32)
    for first in range(0, count, TILE):
        chunks = first + tl.arange(0, TILE)
        row = (query_row * num_chunks + chunks) * NUM_HEADS + head
        chunk_lse = tl.load(lse + row, mask=chunks < count, other=float("-inf"))
        weight = tl.exp2(chunk_lse - base)
        is_used = (chunks < count)[:, None] & is_dim
        average = tl.load(partial + row[:, None] * HEAD_DIM + dims, mask=is_used, other=0.0)
        total += tl.sum(weight, 0)
        sums += tl.sum(weight[:, None] * average, 0)
    result = sums / tl.where(total == 0.0, 1.0, total)
    at = out + query_row * out_row + head * out_head + dims
    tl.store(at, result.to(out.dtype.element_ty), mask=is_dim)
