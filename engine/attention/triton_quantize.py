"""Backend `triton`, KV write to a cache of 8-bit codes where each vector gets a scale of its own.

    scale = largest |number| of the vector / largest code        codes = round(vector / scale)

Why not two steps. Finding the scales in torch reads key and value, and dividing by them reads both again and
writes a float32 copy that the write then reads: 4 + 8 + 4 bytes a number of two bytes. Here a program has
whole vectors in registers, so each is read once, and one byte a number and four a vector are written.
"""

# pyright: reportGeneralTypeIssues=false

from typing import Any

import triton
import triton.language as tl
from torch import Tensor

from engine.attention.kv import Stored
from engine.attention.triton_arguments import padded
from engine.attention.triton_codes import encode_code
from engine.attention.triton_device import check_device
from engine.attention.triton_write import ENCODE, as_bits, block_strides, dense_rows

TILE = 1024  # numbers of a program: 16 bytes a thread and more


@triton.jit
def scale_and_codes(numbers, LARGEST: tl.constexpr, ENCODE: tl.constexpr):
    """float32 [R, D] -> scales [R], codes [R, D]. A vector of zeros has scale 1; one with NaN has NaN, and 0
    where its NaN was, since no code may look like a slot that was never written."""
    is_nan = numbers != numbers
    largest = tl.max(tl.where(is_nan, 0.0, tl.abs(numbers)), 1)
    scales = tl.where(largest == 0.0, 1.0, tl.div_rn(largest, tl.full(largest.shape, LARGEST, tl.float32)))
    scales = tl.where(tl.max(is_nan.to(tl.int32), 1) > 0, float("nan"), scales)
    quotients = tl.div_rn(numbers, tl.broadcast_to(scales[:, None], numbers.shape))
    quotients = tl.where(quotients == quotients, quotients, 0.0)
    return scales, encode_code(quotients, ENCODE)


@triton.jit(do_not_specialize=["num_tokens"], do_not_specialize_on_alignment=["slot_mapping"])
def write_codes_kernel(
    key,  # [num_tokens, num_heads, head_dim]
    value,
    key_cache,  # element (block, slot, head, d) at block * kc_block + slot * kc_slot + head * kc_head + d
    value_cache,
    key_scales,  # float32, element (block, slot, head) at block * s_block + slot * s_slot + head * s_head
    value_scales,
    slot_mapping,  # int64 [num_tokens]
    num_tokens, k_token, k_head, v_token, v_head,
    kc_block, kc_slot, kc_head, vc_block, vc_slot, vc_head, s_block, s_slot, s_head,
    NUM_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    VECTORS: tl.constexpr,
    LARGEST: tl.constexpr,  # code
    ENCODE: tl.constexpr,
):  # fmt: skip
    """Program (VECTORS heads, counted through all tokens)."""
    vector = tl.program_id(0).to(tl.int64) * VECTORS + tl.arange(0, VECTORS)
    token, head = vector // NUM_HEADS, vector % NUM_HEADS
    slot = tl.load(slot_mapping + token, mask=token < num_tokens, other=-1)
    is_written = slot >= 0
    block, offset = slot // BLOCK_SIZE, slot % BLOCK_SIZE
    dims = tl.arange(0, BLOCK_D)
    is_element = is_written[:, None] & (dims < HEAD_DIM)
    scale_at = block * s_block + offset * s_slot + head * s_head

    at = (token * k_token + head * k_head)[:, None] + dims
    numbers = tl.load(key + at, mask=is_element, other=0.0).to(tl.float32)
    scales, codes = scale_and_codes(numbers, LARGEST, ENCODE)
    at = (block * kc_block + offset * kc_slot + head * kc_head)[:, None] + dims
    tl.store(key_cache + at, codes, mask=is_element)
    tl.store(key_scales + scale_at, scales, mask=is_written)

    at = (token * v_token + head * v_head)[:, None] + dims
    numbers = tl.load(value + at, mask=is_element, other=0.0).to(tl.float32)
    scales, codes = scale_and_codes(numbers, LARGEST, ENCODE)
    at = (block * vc_block + offset * vc_slot + head * vc_head)[:, None] + dims
    tl.store(value_cache + at, codes, mask=is_element)
    tl.store(value_scales + scale_at, scales, mask=is_written)


def write_codes(key: Tensor, value: Tensor, stored: Stored, slot_mapping: Tensor, largest: float) -> None:
    """See `engine.attention.write_kv`, which checks what comes here; `stored` has scales."""
    check_device(key)
    num_tokens, num_heads, head_dim = key.shape
    if num_tokens == 0:
        return
    keys, values, key_scales, value_scales = stored
    assert key_scales is not None and value_scales is not None
    key, value = dense_rows(key), dense_rows(value)
    scale_strides = key_scales.stride() if keys.dim() == 4 else (key_scales.stride(0), *key_scales.stride())
    strides = (*key.stride()[:2], *value.stride()[:2], *block_strides(keys), *block_strides(values))
    encode, block_d = ENCODE[keys.dtype], padded(head_dim)
    caches = (as_bits(keys, encode), as_bits(values, encode), key_scales, value_scales)
    vectors = max(TILE // block_d, 1)
    kernel: Any = write_codes_kernel
    kernel[(-(-num_tokens * num_heads // vectors),)](
        key, value, *caches, slot_mapping.contiguous(), num_tokens, *strides, *scale_strides,
        NUM_HEADS=num_heads, HEAD_DIM=head_dim, BLOCK_D=block_d, VECTORS=vectors,
        BLOCK_SIZE=keys.shape[1] if keys.dim() == 4 else 1, LARGEST=largest, ENCODE=encode,
        num_warps=4 if key.element_size() == 2 else 8,
    )  # fmt: skip
