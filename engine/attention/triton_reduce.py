"""Backend `triton`: puts the chunks of each sequence together.

Chunk c brought an average a_c and the log2 of its weights' sum l_c; the whole is
sum_c 2**(l_c - max) * a_c / sum_c 2**(l_c - max). Chunks are taken 16 at a time and only as many as the
sequence itself has, so that the order of summation, and with it every bit, is the sequence's own.
"""

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["num_chunks", "chunk"])
def reduce_kernel(
    partial,  # float32 [num_seqs, num_chunks, num_heads, head_dim]
    lse,  # float32 [num_seqs, num_chunks, num_heads]
    seq_lens,
    out,  # [num_seqs, num_heads, head_dim]
    out_seq, out_head, num_chunks, chunk,
    NUM_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,
    TILE: tl.constexpr,
):  # fmt: skip
    """Program (sequence, head)."""
    sequence = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    dims = tl.arange(0, BLOCK_D)
    is_dim = dims < HEAD_DIM
    count = tl.cdiv(tl.load(seq_lens + sequence), chunk)

    top = tl.full([TILE], float("-inf"), tl.float32)
    for first in range(0, count, TILE):
        chunks = first + tl.arange(0, TILE)
        row = (sequence * num_chunks + chunks) * NUM_HEADS + head
        top = tl.maximum(top, tl.load(lse + row, mask=chunks < count, other=float("-inf")))
    highest = tl.max(top, 0)

    total = 0.0
    sums = tl.zeros([BLOCK_D], tl.float32)
    for first in range(0, count, TILE):
        chunks = first + tl.arange(0, TILE)
        row = (sequence * num_chunks + chunks) * NUM_HEADS + head
        chunk_lse = tl.load(lse + row, mask=chunks < count, other=float("-inf"))
        is_used = chunk_lse > float("-inf")  # a chunk outside the window wrote no average
        weight = tl.where(is_used, tl.exp2(chunk_lse - highest), 0.0)
        average = tl.load(partial + row[:, None] * HEAD_DIM + dims, mask=is_used[:, None] & is_dim, other=0.0)
        total += tl.sum(weight, 0)
        sums += tl.sum(weight[:, None] * average, 0)
    result = sums / tl.where(total == 0.0, 1.0, total)
    tl.store(out + sequence * out_seq + head * out_head + dims, result.to(out.dtype.element_ty), mask=is_dim)
