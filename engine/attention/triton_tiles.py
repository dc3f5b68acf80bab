"""What the attention kernels share: which tiles of keys a sequence has, and what is done with one of them."""

# pyright: reportGeneralTypeIssues=false

import triton
import triton.language as tl

from engine.attention.triton_codes import to_factor

LOG2E = tl.constexpr(1.4426950408889634)
SMALLEST = tl.constexpr(2.0**-126)


@triton.jit
def count_tiles(low, stop, sinks, TILE: tl.constexpr, HAS_WINDOW: tl.constexpr):
    """Tiles that hold a key of [0, sinks) or [low, stop): how many of sinks, where the others begin, all."""
    sink_tiles = 0
    aligned = 0
    if HAS_WINDOW:
        aligned = low // TILE * TILE
        sink_tiles = tl.cdiv(tl.minimum(sinks, aligned), TILE)
    return sink_tiles, aligned, sink_tiles + tl.cdiv(tl.maximum(stop - aligned, 0), TILE)


@triton.jit
def find_slots(
    place, positions, is_read, BLOCK_SIZE: tl.constexpr, PAGED: tl.constexpr, MASKED: tl.constexpr
):
    """Block and offset of tokens, int64; their addresses are block * block_stride + offset * slot_stride.

    `place` is the row of the table, or the first slot of a sequence that lies in one run. Only entries of
    tokens that will be read are loaded: the rest of a table may hold anything. They become 64-bit at once,
    because block * stride passes 2**31 elements in any pool of more than 4 GiB.
    """
    if PAGED:
        column = place + positions // BLOCK_SIZE
        block = (tl.load(column, mask=is_read, other=0) if MASKED else tl.load(column)).to(tl.int64)
        offset = (positions % BLOCK_SIZE).to(tl.int64)
    else:
        block = place + tl.zeros_like(positions).to(tl.int64)
        offset = positions.to(tl.int64)
    return block, offset


@triton.jit
def load_rows(cache, at, is_read, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, MASKED: tl.constexpr):
    """Rows [TILE, BLOCK_D] that begin at `at`; 0 where there is nothing to read.

    A value that nobody may see must not be loaded: 0 * NaN is NaN, so a weight of 0 would not be enough.
    """
    dims = tl.arange(0, BLOCK_D)
    pointers = cache + at[:, None] + dims
    if MASKED:
        rows = tl.load(pointers, mask=is_read[:, None] & (dims < HEAD_DIM), other=0.0)
    elif HEAD_DIM < BLOCK_D:
        rows = tl.load(pointers, mask=tl.broadcast_to((dims < HEAD_DIM)[None, :], pointers.shape), other=0.0)
    else:
        rows = tl.load(pointers)
    return rows


@triton.jit
def attend_tile(
    q, top, total, sums,  # query rows [M, BLOCK_D]; running maximum and total [M], sums [M, BLOCK_D], float32
    unit,  # in what `sums` are counted, float32: 1 without scales of tokens
    keys, values, key_scales, value_scales, place, kv_head,
    k_block, k_slot, k_head, v_block, v_slot, v_head, s_block, s_slot, s_head,
    positions,  # of the tile's keys [T]
    is_read,  # [T]: which to load
    is_seen,  # [M, T] or [1, T]: which row sees which key
    distance,  # [M, T] or [1, T]: position of the key less that of the query
    slope, scale, softcap,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_SIZE: tl.constexpr, PAGED: tl.constexpr,
    HAS_SOFTCAP: tl.constexpr, HAS_ALIBI: tl.constexpr, TOKEN_SCALES: tl.constexpr,
    DECODE: tl.constexpr, DOT: tl.constexpr,
    MASKED: tl.constexpr,  # without it all keys are read and seen
):  # fmt: skip
    """The running softmax after one more tile of keys: new maximum, total, sums and their unit.

    A scale of a token would push weights out of float16's range, so sums count in the largest scale so far.
    """
    block, offset = find_slots(place, positions, is_read, BLOCK_SIZE, PAGED, MASKED)
    k_at = block * k_block + offset * k_slot + kv_head * k_head
    k = to_factor(load_rows(keys, k_at, is_read, HEAD_DIM, BLOCK_D, MASKED), DECODE, DOT)
    scores = tl.dot(q, tl.trans(k), input_precision="ieee")
    s_at = block * s_block + offset * s_slot + kv_head * s_head
    if TOKEN_SCALES:
        scores *= load_scales(key_scales + s_at, is_read, MASKED)[None, :]
    scores = shape_scores(scores, scale, slope, distance, softcap, HAS_SOFTCAP, HAS_ALIBI)
    if MASKED:
        scores = tl.where(is_seen, scores, float("-inf"))
    weights, rescale, top, total = weigh(scores, top, total)
    v_at = block * v_block + offset * v_slot + kv_head * v_head
    v = to_factor(load_rows(values, v_at, is_read, HEAD_DIM, BLOCK_D, MASKED), DECODE, DOT)
    if TOKEN_SCALES:
        v_scales = load_scales(value_scales + s_at, is_read, MASKED)
        new_unit = tl.maximum(unit, tl.max(v_scales, 0))
        weights *= (v_scales / new_unit)[None, :]
        rescale *= unit / new_unit
        unit = new_unit
    sums = tl.dot(weights.to(DOT), v, sums * rescale[:, None], input_precision="ieee")
    return top, total, sums, unit


@triton.jit
def first_unit(TOKEN_SCALES: tl.constexpr):
    """Of sums that are still 0: the smallest normal float32, whose place the first real scale takes."""
    return SMALLEST if TOKEN_SCALES else 1.0


@triton.jit
def load_scales(pointers, is_read, MASKED: tl.constexpr):
    """float32 [T]; 0 where there is nothing to read."""
    return tl.load(pointers, mask=is_read, other=0.0) if MASKED else tl.load(pointers)


@triton.jit
def shape_scores(
    scores, scale, slope, distance, softcap, HAS_SOFTCAP: tl.constexpr, HAS_ALIBI: tl.constexpr
):  # fmt: skip
    """Scale, softcap, then ALiBi, then log2 units: scores [M, T], slope [M], distance [M, T] <= 0."""
    if HAS_SOFTCAP:  # tanh(x) = 1 - 2 / (e**2x + 1) neither overflows nor divides infinities
        shaped = softcap * (1 - 2 / (tl.exp2(scores * (scale * (2 * LOG2E / softcap))) + 1)) * LOG2E
    else:
        shaped = scores * (scale * LOG2E)
    if HAS_ALIBI:
        shaped += (slope * LOG2E)[:, None] * distance.to(tl.float32)
    return shaped


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
