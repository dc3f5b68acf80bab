"""Backend `triton`, KV write: new keys and values into their slots.

Why. It runs once a layer and step, moves little, and must not cost more than its bytes.

Naive, in torch: drop the padding tokens (a copy of key and value, and a wait for the GPU to learn how
many are left), convert (another copy), scatter: 6 passes over 2 * tokens * heads * head_dim elements, in a
dozen launches. Here:

    bytes read     2 * tokens * heads * head_dim * itemsize of the new tokens, once
    bytes written  the same in itemsize of the cache, once; one launch for keys and values

A thread moves 16 bytes at a time: the number of warps follows the width of a token. With more warps than
that, each thread gets fewer bytes and the same data takes several times the instructions.
"""

# pyright: reportGeneralTypeIssues=false

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.attention.triton_codes import encode_bfloat16, encode_code
from engine.attention.triton_config import power_of_two
from engine.attention.triton_device import check_device

MAX_TILE = 1024  # elements of a token in one program
THREAD_BYTES, WARP = 16, 32
ENCODE = {torch.bfloat16: "bf16", torch.int8: "int8", torch.float8_e4m3fn: "e4m3", torch.float8_e5m2: "e5m2"}
BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@triton.jit
def encoded(numbers, scales, head, is_element, ENCODE: tl.constexpr, HAS_SCALE: tl.constexpr):
    """Numbers as the cache stores them: round(number / scale), held within the range of its codes."""
    if ENCODE == "bits" or ENCODE == "cast":
        stored = numbers
    else:
        x = numbers.to(tl.float32)
        if HAS_SCALE:
            x = tl.div_rn(x, tl.load(scales + head, mask=is_element, other=1.0))
        stored = encode_bfloat16(x) if ENCODE == "bf16" else encode_code(x, ENCODE)
    return stored


@triton.jit(do_not_specialize=["num_tokens"], do_not_specialize_on_alignment=["slot_mapping"])
def write_kernel(
    key,  # [num_tokens, num_heads, head_dim]
    value,
    key_cache,  # element (block, slot, head, d) at block * kc_block + slot * kc_slot + head * kc_head + d
    value_cache,
    slot_mapping,  # int64 [num_tokens]
    k_scale,  # float32 [num_heads], or nothing
    v_scale,
    num_tokens, k_token, k_head, v_token, v_head, kc_block, kc_slot, kc_head, vc_block, vc_slot, vc_head,
    NUM_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    TOKENS: tl.constexpr,
    TILE: tl.constexpr,
    ENCODE: tl.constexpr,  # "bits": copy them; "cast": the store converts; else the 8-bit format
    HAS_K_SCALE: tl.constexpr,
    HAS_V_SCALE: tl.constexpr,
):  # fmt: skip
    """Program (TOKENS tokens, TILE elements of each; an element counts through all heads)."""
    token = tl.program_id(0).to(tl.int64) * TOKENS + tl.arange(0, TOKENS)
    slot = tl.load(slot_mapping + token, mask=token < num_tokens, other=-1)
    element = tl.program_id(1) * TILE + tl.arange(0, TILE)
    head, dim = element // HEAD_DIM, element % HEAD_DIM
    is_element = element < NUM_HEADS * HEAD_DIM
    is_written = (slot >= 0)[:, None] & is_element
    block, offset = slot // BLOCK_SIZE, slot % BLOCK_SIZE

    numbers = tl.load(key + token[:, None] * k_token + (head * k_head + dim), mask=is_written)
    stored = encoded(numbers, k_scale, head, is_element, ENCODE, HAS_K_SCALE)
    at = (block * kc_block + offset * kc_slot)[:, None] + (head * kc_head + dim)
    tl.store(key_cache + at, stored.to(key_cache.dtype.element_ty), mask=is_written)

    numbers = tl.load(value + token[:, None] * v_token + (head * v_head + dim), mask=is_written)
    stored = encoded(numbers, v_scale, head, is_element, ENCODE, HAS_V_SCALE)
    at = (block * vc_block + offset * vc_slot)[:, None] + (head * vc_head + dim)
    tl.store(value_cache + at, stored.to(value_cache.dtype.element_ty), mask=is_written)


def write(
    key: Tensor,
    value: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    slot_mapping: Tensor,
    k_scale: Tensor | None,
    v_scale: Tensor | None,
) -> None:
    """See `engine.attention.write_kv`, which checks what comes here; scales are float32 [num_heads]."""
    check_device(key)
    num_tokens, num_heads, head_dim = key.shape
    if num_tokens == 0:
        return
    encode = "bits" if key.dtype == key_cache.dtype else ENCODE.get(key_cache.dtype, "cast")
    key, value = dense_rows(key), dense_rows(value)
    scales = (slot_mapping if scale is None else scale for scale in (k_scale, v_scale))
    strides = (*key.stride()[:2], *value.stride()[:2], *block_strides(key_cache), *block_strides(value_cache))
    if encode == "bits":  # keeps NaN payloads, and the interpreter from converting
        key, value = as_bits(key), as_bits(value)
    if encode != "cast":
        key_cache, value_cache = as_bits(key_cache, encode), as_bits(value_cache, encode)
    width = num_heads * head_dim
    tile = min(power_of_two(width), MAX_TILE)
    lane = THREAD_BYTES // key.element_size() * WARP  # elements that one warp moves at a time
    tokens = max(lane // tile, 1)
    kernel: Any = write_kernel
    kernel[-(-num_tokens // tokens), -(-width // tile)](
        key, value, key_cache, value_cache, slot_mapping.contiguous(), *scales, num_tokens, *strides,
        NUM_HEADS=num_heads, HEAD_DIM=head_dim, TOKENS=tokens, TILE=tile, ENCODE=encode,
        BLOCK_SIZE=key_cache.shape[1] if key_cache.dim() == 4 else 1,
        HAS_K_SCALE=k_scale is not None, HAS_V_SCALE=v_scale is not None,
        num_warps=min(max(tile // lane, 1), 4),
    )  # fmt: skip


def dense_rows(new: Tensor) -> Tensor:
    """With head_dim contiguous, as slices of a fused projection are; anything else is copied."""
    return new if new.stride(-1) == 1 or new.shape[-1] == 1 else new.contiguous()


def as_bits(tensor: Tensor, encode: str = "bits") -> Tensor:
    """The same memory as integers."""
    return tensor if encode == "int8" else tensor.view(BITS[tensor.element_size()])


def block_strides(cache: Tensor) -> tuple[int, int, int]:
    """Elements from one block, slot, head to the next; an arena is made of blocks of one slot."""
    return cache.stride()[:3] if cache.dim() == 4 else (cache.stride(0), 0, cache.stride(1))  # pyright: ignore
