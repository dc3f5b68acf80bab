"""The kernels that ship, as calls that make Triton compile them: one for each entry of the launch tables.

Every call is of the kind an engine makes: 8 kv heads, blocks of 16, contiguous caches. What multiplies the
table (dtypes, features, groups, block sizes) is varied one at a time from bfloat16 at group 4.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import torch

from engine.attention import (
    contiguous_attention,
    contiguous_prefill,
    copy_blocks,
    paged_attention,
    paged_prefill,
    write_kv,
)
from engine.attention.triton_config import DECODE, PREFILL

NUM_KV_HEADS = 8
NAMES = {
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
    torch.float32: "fp32",
    torch.int8: "int8",
    torch.float8_e4m3fn: "e4m3",
    torch.float8_e5m2: "e5m2",
}
FLOATS = (torch.float16, torch.bfloat16, torch.float32)
CODES = (torch.int8, torch.float8_e4m3fn, torch.float8_e5m2)


class Variant(NamedTuple):
    """A name, and a call that launches the kernel."""

    name: str
    call: Callable[[], Any]


def variants() -> Iterator[Variant]:
    """All that ship."""
    for operation, table in (("decode", DECODE), ("short", DECODE), ("prefill", PREFILL)):
        for factor_bytes, head_dim in table:
            yield from attention_variants(operation, factor_bytes, head_dim)
    yield from write_variants()
    for size, name in ((64, "16 bytes"), (3, "any")):
        pool = torch.zeros(4, size)
        yield Variant(
            f"copy, runs of {name}", partial(copy_blocks, [pool], torch.tensor([[0, 1]]), backend="triton")
        )


def attention_variants(operation: str, factor_bytes: int, head_dim: int) -> Iterator[Variant]:
    """One entry of the table with its dtypes and features; more of both at 128, the usual head_dim."""
    make = partial(attention, operation)
    dtypes = (torch.float32,) if factor_bytes == 4 else (torch.bfloat16, torch.float16)
    is_usual, is_short = head_dim == 128, operation == "short"  # which is decode with another tile
    for dtype in dtypes[:1] if is_short else dtypes:
        yield make(dtype, dtype, head_dim)
    if is_usual or not is_short:
        yield make(dtypes[0], dtypes[0], head_dim, features=True)
        yield make(dtypes[0], dtypes[0], head_dim, paged=False)
    for code in CODES if is_usual and not is_short else ():
        yield make(dtypes[0], code, head_dim)
    if is_usual or (factor_bytes == 2 and not is_short):
        for code in CODES[:2]:
            yield make(dtypes[0], code, head_dim, token_scales=True)
    if is_usual and not is_short:
        yield make(dtypes[0], dtypes[0], head_dim, paged=False, features=True)
        for code in CODES[:2]:
            yield make(dtypes[0], code, head_dim, paged=False)
            yield make(dtypes[0], code, head_dim, paged=False, token_scales=True)
    if is_usual and factor_bytes == 2:
        yield from unusual(make, is_short=is_short)


def unusual(make: Callable[..., Variant], *, is_short: bool) -> Iterator[Variant]:
    """What differs from a group of 4, blocks of 16 and a head of 128 in one thing."""
    half, brain = torch.float16, torch.bfloat16
    yield make(brain, brain, 128, drops=True)
    yield make(half, torch.int8, 128, token_scales=is_short)
    for odd in () if is_short else (80, 96):
        yield make(half, half, odd)
    for group in (1, 24) if is_short else (1, 7, 24, 64):
        yield make(brain, brain, 128, group=group)
    for block_size in () if is_short else (1, 48):
        yield make(brain, brain, 128, block_size=block_size)


def attention(
    operation: str,
    dtype: torch.dtype,
    cache_dtype: torch.dtype,
    head_dim: int,
    *,
    group: int = 4,
    block_size: int = 16,
    paged: bool = True,
    features: bool = False,
    token_scales: bool = False,
    drops: bool = False,
) -> Variant:
    """One variant, with a context of several chunks."""
    words = [operation, NAMES[dtype], str(head_dim)]
    words += [f"cache {NAMES[cache_dtype]}"] * (cache_dtype != dtype) + [f"group {group}"] * (group != 4)
    words += [f"blocks of {block_size}"] * (block_size != 16)
    words += ["contiguous"] * (not paged) + ["all features"] * features
    words += ["scales of tokens"] * token_scales + ["dropped tokens"] * drops
    options: dict[str, Any] = {"backend": "triton"}
    if (cache_dtype in CODES and not token_scales) or features:
        options |= {"k_scale": 0.5, "v_scale": 0.5}
    if features:
        options |= {
            "window": 4096,
            "sinks": 4,
            "softcap": 30.0,
            "alibi_slopes": torch.ones(NUM_KV_HEADS * group),
        }

    def call() -> Any:
        num_tokens = 4096
        slots = torch.empty(num_tokens, NUM_KV_HEADS, head_dim).to(cache_dtype)
        scales = slots[..., 0].float()
        query = torch.zeros(1, NUM_KV_HEADS * group, head_dim, dtype=dtype)
        lens, starts = torch.ones(1, dtype=torch.int32), torch.tensor([0, 1], dtype=torch.int32)
        if paged:
            num_blocks = num_tokens // block_size
            in_blocks = (slice(num_blocks * block_size), (num_blocks, block_size))
            cache, scales = (part[in_blocks[0]].unflatten(0, in_blocks[1]) for part in (slots, scales))
            place = torch.zeros(1, num_blocks, dtype=torch.int32)
        else:
            cache, place = slots, torch.zeros(1, dtype=torch.int64)
        if token_scales:
            options.update(key_scales=scales, value_scales=scales)
        if drops:
            options["seen_until"] = torch.ones(1, num_tokens, dtype=torch.int32)
        functions = (paged_attention, paged_prefill) if paged else (contiguous_attention, contiguous_prefill)
        if operation == "decode":
            return functions[0](query, cache, cache, place, lens, **options)
        most = 8 if operation == "short" else None
        return functions[1](query, cache, cache, place, lens, starts, **options, max_query_len=most)

    return Variant(", ".join(words), call)


def write_variants() -> Iterator[Variant]:
    """Every pair of dtypes, at 8 heads of 128; the narrow and the odd widths once."""
    shapes = [(dtype, cache_dtype, 8, 128) for dtype in FLOATS for cache_dtype in (*FLOATS, *CODES)]
    shapes += [
        (torch.bfloat16, torch.bfloat16, heads, dim) for heads, dim in ((1, 64), (1, 128), (5, 80), (8, 96))
    ]
    for dtype, cache_dtype, heads, head_dim in shapes:
        new = torch.zeros(1, heads, head_dim, dtype=dtype)
        cache = torch.zeros(2, 16, heads, head_dim).to(cache_dtype)
        options = {"k_scale": 0.5, "v_scale": 0.5} if cache_dtype in CODES else {}
        call = partial(write_kv, new, new, cache, cache, torch.zeros(1).long(), **options, backend="triton")
        yield Variant(f"write, {NAMES[dtype]} to {NAMES[cache_dtype]}, {heads} x {head_dim}", call)
    for dtype, code, head_dim in ((dtype, code, 128) for dtype in FLOATS for code in CODES[:2]):
        new, codes = torch.zeros(1, 8, head_dim, dtype=dtype), torch.zeros(2, 16, 8, head_dim).to(code)
        options = dict.fromkeys(("key_scales", "value_scales"), torch.zeros(2, 16, 8))
        call = partial(write_kv, new, new, codes, codes, torch.zeros(1).long(), **options, backend="triton")
        yield Variant(f"write, {NAMES[dtype]} to {NAMES[code]}, 8 x {head_dim}, scales of tokens", call)
