"""What the Triton kernels share: where a tile of keys lies, what scores go through, the running softmax."""

# pyright: reportGeneralTypeIssues=false

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def find_slots(table_row, positions, is_read, BLOCK_SIZE: tl.constexpr, PAGED: tl.constexpr):
    """Block and offset of tokens, int64; their addresses are block * block_stride + offset * slot_stride.

    Only entries of tokens that will be read are loaded: the rest of a table may hold anything. They become
    64-bit at once, because block * stride passes 2**31 elements in any pool of more than 4 GiB.
    """
    if PAGED:
        block = tl.load(table_row + positions // BLOCK_SIZE, mask=is_read, other=0).to(tl.int64)
        offset = (positions % BLOCK_SIZE).to(tl.int64)
    else:  # one run of slots: the block is as long as the sequence and begins at its first slot
        block = tl.load(table_row).to(tl.int64) + tl.zeros_like(positions).to(tl.int64)
        offset = positions.to(tl.int64)
    return block, offset


@triton.jit
def shape_scores(scores, slopes, distance, softcap, HAS_SOFTCAP: tl.constexpr, HAS_ALIBI: tl.constexpr):
    """Softcap, then ALiBi, then log2 units: scores [M, T], slopes [M], distance [M, T] = key - query <= 0."""
    if HAS_SOFTCAP:  # tanh(x) = 1 - 2 / (e**2x + 1) neither overflows nor divides infinities
        scores = softcap * (1 - 2 / (tl.exp2(scores * (2 * LOG2E / softcap)) + 1))
    if HAS_ALIBI:
        scores += slopes[:, None] * distance
    return scores * LOG2E


@triton.jit
def weigh(scores, top, total):
    """Scores [M, T], log2, -inf where hidden -> weights, what to scale older sums by, new maximum and total.

    The maximum is carried as -inf until a row sees its first key; only the exponent uses a stand-in, for
    -inf - -inf is NaN. Carrying the stand-in would lose a row whose first real scores are far below it.
    """
    new_top = tl.maximum(top, tl.max(scores, 1))
    base = tl.where(new_top == float("-inf"), 0.0, new_top)
    weights = tl.exp2(scores - base[:, None])
    rescale = tl.exp2(top - base)
    return weights, rescale, new_top, total * rescale + tl.sum(weights, 1)
