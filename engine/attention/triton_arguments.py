"""What the attention kernels are called with: pointers, strides and constants of a batch, in their order."""

from typing import Any

import torch
import triton.language as tl
from torch import Tensor

from engine.attention.checks import require
from engine.attention.features import Features
from engine.attention.kv import KV, PagedKV
from engine.attention.triton_config import DECODE, factor_dtype, power_of_two
from engine.attention.triton_device import IS_INTERPRETED, converts_e4m3

DOT = {torch.float32: tl.float32, torch.float16: tl.float16, torch.bfloat16: tl.bfloat16}


def check_possible(query: Tensor, kv: KV) -> None:
    """What this backend cannot do, and which one can."""
    is_double = torch.float64 in (query.dtype, kv.stored.keys.dtype)
    require(not is_double, 'backend "triton" computes in float32, not float64: use backend="torch"')
    largest = max(head_dim for _, head_dim in DECODE)
    require(
        kv.head_dim <= largest,
        f'backend "triton" takes head_dim up to {largest}, not {kv.head_dim}: use backend="torch"',
    )


def factors_of(query: Tensor, kv: KV) -> torch.dtype:
    """The dtype of the factors of the matrix products."""
    return factor_dtype(query.dtype, kv.stored.keys.dtype, interpreted=IS_INTERPRETED)


def padded(head_dim: int) -> int:
    """What a kernel's tiles have for it: a matrix product takes powers of two from 16 up."""
    return max(power_of_two(head_dim), 16)


def cache_pointers(query: Tensor, kv: KV) -> tuple[Tensor, ...]:
    """Keys, values and the scales of their tokens; where there are none, a tensor that no kernel touches."""
    keys, values, *scales = kv.stored
    if decoder(keys.dtype, factors_of(query, kv)) == "e4m3":  # by its bits
        keys, values = keys.view(torch.uint8), values.view(torch.uint8)
    return keys, values, *(query if scale is None else scale for scale in scales)


def feature_pointers(query: Tensor, features: Features) -> tuple[Tensor, ...]:
    """seen_until, slopes and scales of heads, likewise."""
    given = (features.seen_until, features.alibi_slopes, features.k_scale, features.v_scale)
    return tuple(query if tensor is None else tensor for tensor in given)


def feature_numbers(features: Features) -> tuple[Any, ...]:
    """Scale, softcap, window, sinks; a number that its constant switches off is 1."""
    return features.scale, float(features.softcap or 1), features.window or 1, features.sinks


def strides(query: Tensor, kv: KV, features: Features, out: Tensor) -> tuple[int, ...]:
    """In the order of the kernels' arguments; the query is contiguous by then."""
    stored = kv.stored
    of_caches = kv.strides(stored.keys) + kv.strides(stored.values)
    of_scales = (0, 0, 0) if stored.key_scales is None else kv.strides(stored.key_scales)
    until_seq = 0 if features.seen_until is None else features.seen_until.stride(0)
    of_query = (query.shape[1] * query.shape[2], query.shape[2])
    return *of_query, *of_caches, *of_scales, kv.table.stride(0), until_seq, out.stride(0), out.stride(1)


def constants(query: Tensor, kv: KV, features: Features) -> dict[str, Any]:
    """What both kernels are compiled for."""
    is_paged, factors = isinstance(kv, PagedKV), factors_of(query, kv)
    return {
        "GROUP": query.shape[1] // kv.num_kv_heads,
        "HEAD_DIM": kv.head_dim,
        "BLOCK_D": padded(kv.head_dim),
        "BLOCK_SIZE": kv.block_size if is_paged else 1,
        "PAGED": is_paged,
        "HAS_WINDOW": features.window is not None,
        "HAS_UNTIL": features.seen_until is not None,
        "HAS_SOFTCAP": features.softcap is not None,
        "HAS_ALIBI": features.alibi_slopes is not None,
        "HAS_K_SCALE": features.k_scale is not None,
        "HAS_V_SCALE": features.v_scale is not None,
        "TOKEN_SCALES": kv.stored.key_scales is not None,
        "DECODE": decoder(kv.stored.keys.dtype, factors),
        "DOT": DOT[factors],
    }


def decoder(cache_dtype: torch.dtype, factors: torch.dtype) -> str:
    """Which 8-bit codes the kernel has to take apart itself; see `to_factor`."""
    if cache_dtype == torch.float8_e4m3fn and not converts_e4m3():
        return "e4m3"
    return "int8" if cache_dtype == torch.int8 and factors == torch.float16 else ""


def writable(out: Tensor) -> Tensor:
    """Where the kernels may write: `out`, or float32 memory where the interpreter would round wrongly."""
    if out.stride(-1) == 1 and not (IS_INTERPRETED and out.dtype == torch.bfloat16):
        return out
    return torch.empty(out.shape, dtype=torch.float32, device=out.device)


def finish(result: Tensor, out: Tensor) -> None:
    """Brings a result that could not be written to `out` there."""
    if result is not out:
        out.copy_(result)
