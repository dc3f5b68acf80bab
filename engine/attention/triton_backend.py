"""Attention backend `triton`: launches the kernels on a CUDA device, or in Triton's interpreter."""

from typing import Any

import torch
import triton.language as tl
from torch import Tensor

from engine.attention.checks import require
from engine.attention.features import Features
from engine.attention.kv import KV, PagedKV
from engine.attention.triton_config import (
    DECODE,
    MAX_DECODE_ROWS,
    decode_launch,
    factor_dtype,
    max_chunks,
    min_chunk_tokens,
    power_of_two,
    prefill_launch,
)
from engine.attention.triton_copy import copy
from engine.attention.triton_decode import decode_kernel
from engine.attention.triton_device import IS_INTERPRETED, check_device, converts_e4m3
from engine.attention.triton_prefill import prefill_kernel
from engine.attention.triton_reduce import reduce_kernel
from engine.attention.triton_swap import swap
from engine.attention.triton_write import write

__all__ = ["copy", "decode", "prefill", "swap", "write"]

DOT = {torch.float32: tl.float32, torch.float16: tl.float16, torch.bfloat16: tl.bfloat16}
REDUCE_TILE = 16


def decode(query: Tensor, kv: KV, seq_lens: Tensor, features: Features, out: Tensor) -> None:
    """See `engine.attention.reference.decode`."""
    check_possible(query, kv)
    num_seqs, num_heads, head_dim = query.shape
    if num_seqs == 0:
        return
    group = num_heads // kv.num_kv_heads
    factors = factor_dtype(query.dtype, kv.keys.dtype, interpreted=IS_INTERPRETED)
    sizes = (factors.itemsize, kv.keys.dtype.itemsize, padded(head_dim))
    launch = decode_launch(*sizes, is_paged=isinstance(kv, PagedKV))
    block_m = min(max(power_of_two(group), launch.rows), MAX_DECODE_ROWS)
    num_warps = 8 if block_m == MAX_DECODE_ROWS else launch.num_warps
    cut = (-(-min_chunk_tokens(group) // launch.tile), max_chunks(kv.num_kv_heads))
    num_chunks = count_chunks(kv, features, launch.tile, *cut)
    result, seq_lens = writable(out), seq_lens.contiguous()
    is_direct = num_chunks == 1
    lse = query.new_empty((num_seqs, 0 if is_direct else num_chunks, num_heads), dtype=torch.float32)
    partial = lse.new_empty((*lse.shape, head_dim))
    grid = (num_seqs * num_chunks, kv.num_kv_heads * -(-group // block_m))
    arguments = pointers(query, kv, seq_lens, factors) + feature_pointers(query, features)
    arguments += (
        result,
        partial,
        lse,
        *strides(query, kv, result),
        num_chunks,
        *cut,
        *feature_numbers(features),
    )
    constants = {"NUM_KV_HEADS": kv.num_kv_heads, "BLOCK_M": block_m, "TILE": launch.tile}
    constants |= {"DIRECT": is_direct} | shared_constants(kv, features, group, factors)
    kernel: Any = decode_kernel
    kernel[grid](*arguments, **constants, num_warps=num_warps, num_stages=launch.num_stages)
    if not is_direct:
        arguments = (partial, lse, seq_lens, result, result.stride(0), result.stride(1), num_chunks, *cut)
        arguments += feature_numbers(features)[2:]
        constants = {"NUM_HEADS": num_heads, "HEAD_DIM": head_dim, "BLOCK_D": padded(head_dim)}
        constants |= {"KEY_TILE": launch.tile, "HAS_WINDOW": features.window is not None}
        kernel = reduce_kernel
        kernel[num_seqs, num_heads](*arguments, **constants, TILE=REDUCE_TILE)
    finish(result, out)


def prefill(
    query: Tensor, kv: KV, seq_lens: Tensor, query_start_loc: Tensor, features: Features, out: Tensor
) -> None:
    """See `engine.attention.reference.prefill`."""
    check_possible(query, kv)
    num_tokens, num_heads, head_dim = query.shape
    if num_tokens == 0:
        return
    group = num_heads // kv.num_kv_heads
    factors = factor_dtype(query.dtype, kv.keys.dtype, interpreted=IS_INTERPRETED)
    sizes = (factors.itemsize, kv.keys.dtype.itemsize, padded(head_dim))
    launch = prefill_launch(*sizes, is_paged=isinstance(kv, PagedKV))
    block_m = max(launch.rows, power_of_two(group))
    result = writable(out)
    grid = (num_tokens // (block_m // group) + kv.num_seqs, kv.num_kv_heads)
    arguments = (*pointers(query, kv, seq_lens, factors), query_start_loc.contiguous())
    arguments += (*feature_pointers(query, features), result)
    arguments += (*strides(query, kv, result), kv.num_seqs, *feature_numbers(features))
    constants = {"BLOCK_M": block_m, "TILE": launch.tile}
    constants |= shared_constants(kv, features, group, factors)
    kernel: Any = prefill_kernel
    kernel[grid](*arguments, **constants, num_warps=launch.num_warps, num_stages=launch.num_stages)
    finish(result, out)


def check_possible(query: Tensor, kv: KV) -> None:
    """What this backend cannot do, and which one can."""
    check_device(query)
    is_double = torch.float64 in (query.dtype, kv.keys.dtype)
    require(not is_double, 'backend "triton" computes in float32, not float64: use backend="torch"')
    largest = max(head_dim for _, head_dim in DECODE)
    require(
        kv.head_dim <= largest,
        f'backend "triton" takes head_dim up to {largest}, not {kv.head_dim}: use backend="torch"',
    )


def padded(head_dim: int) -> int:
    """What a kernel's tiles have for it: a matrix product takes powers of two from 16 up."""
    return max(power_of_two(head_dim), 16)


def count_chunks(kv: KV, features: Features, tile: int, min_tiles: int, most: int) -> int:
    """A bound on the chunks of any sequence of the batch, without a look at the lengths, which would stop
    the stream: from the width of the table or arena, and the window."""
    num_tiles = -(-kv.max_tokens // tile)
    if features.window is not None:
        num_tiles = min(num_tiles, -(-features.window // tile) + 1 + -(-features.sinks // tile))
    return max(min(-(-num_tiles // min_tiles), most), 1)


def pointers(query: Tensor, kv: KV, seq_lens: Tensor, factors: torch.dtype) -> tuple[Any, ...]:
    """The first arguments of both kernels."""
    keys, values = kv.keys, kv.values
    if decoder(keys.dtype, factors) == "e4m3":  # by its bits
        keys, values = keys.view(torch.uint8), values.view(torch.uint8)
    return query.contiguous(), keys, values, kv.table, seq_lens.contiguous()


def decoder(cache_dtype: torch.dtype, factors: torch.dtype) -> str:
    """Which 8-bit codes the kernel has to take apart itself; see `to_factor`."""
    if cache_dtype == torch.float8_e4m3fn and not converts_e4m3():
        return "e4m3"
    return "int8" if cache_dtype == torch.int8 and factors == torch.float16 else ""


def feature_pointers(query: Tensor, features: Features) -> tuple[Any, ...]:
    """Slopes and scales; where there are none, a tensor that the kernel does not touch."""
    given = (features.alibi_slopes, features.k_scale, features.v_scale)
    return tuple(query if tensor is None else tensor for tensor in given)


def feature_numbers(features: Features) -> tuple[Any, ...]:
    """Scale, softcap, window, sinks; a number that its constant switches off is 1."""
    return features.scale, float(features.softcap or 1), features.window or 1, features.sinks


def strides(query: Tensor, kv: KV, out: Tensor) -> tuple[Any, ...]:
    """In the order of the kernels' arguments; the query is contiguous by then."""
    of_query = (query.shape[1] * query.shape[2], query.shape[2])
    of_table = (kv.table.stride(0),)
    return of_query + kv.strides(kv.keys) + kv.strides(kv.values) + of_table + (out.stride(0), out.stride(1))


def shared_constants(kv: KV, features: Features, group: int, factors: torch.dtype) -> dict[str, Any]:
    """What both kernels are compiled for."""
    is_paged = isinstance(kv, PagedKV)
    return {
        "GROUP": group,
        "HEAD_DIM": kv.head_dim,
        "BLOCK_D": padded(kv.head_dim),
        "BLOCK_SIZE": kv.block_size if is_paged else 1,
        "PAGED": is_paged,
        "HAS_WINDOW": features.window is not None,
        "HAS_SOFTCAP": features.softcap is not None,
        "HAS_ALIBI": features.alibi_slopes is not None,
        "HAS_K_SCALE": features.k_scale is not None,
        "HAS_V_SCALE": features.v_scale is not None,
        "DECODE": decoder(kv.keys.dtype, factors),
        "DOT": DOT[factors],
    }


def writable(out: Tensor) -> Tensor:
    """Where the kernels may write: `out`, or float32 memory where the interpreter would round wrongly."""
    if out.stride(-1) == 1 and not (IS_INTERPRETED and out.dtype == torch.bfloat16):
        return out
    return torch.empty(out.shape, dtype=torch.float32, device=out.device)


def finish(result: Tensor, out: Tensor) -> None:
    """Brings a result that could not be written to `out` there."""
    if result is not out:
        out.copy_(result)
