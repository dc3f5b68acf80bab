"""Attention backend `triton`: launches the kernels on a CUDA device, or in Triton's interpreter."""

from typing import Any

import torch
from torch import Tensor

from engine.attention.backends import MAX_SHORT
from engine.attention.features import Features
from engine.attention.kv import KV, PagedKV
from engine.attention.triton_arguments import (
    cache_pointers,
    check_possible,
    constants,
    factors_of,
    feature_numbers,
    feature_pointers,
    finish,
    padded,
    strides,
    writable,
)
from engine.attention.triton_config import (
    MAX_DECODE_ROWS,
    decode_launch,
    max_chunks,
    max_decode_rows,
    min_chunk_tokens,
    power_of_two,
    prefill_launch,
)
from engine.attention.triton_copy import copy
from engine.attention.triton_decode import decode_kernel
from engine.attention.triton_device import check_device
from engine.attention.triton_prefill import prefill_kernel
from engine.attention.triton_quantize import write_codes
from engine.attention.triton_reduce import reduce_kernel
from engine.attention.triton_swap import swap
from engine.attention.triton_write import write

__all__ = ["copy", "decode", "prefill", "short", "swap", "write", "write_codes"]

REDUCE_TILE = 16


def decode(query: Tensor, kv: KV, seq_lens: Tensor, features: Features, out: Tensor) -> None:
    """See `engine.attention.reference.decode`."""
    split(query, kv, seq_lens, None, features, out)


def short(
    query: Tensor, kv: KV, seq_lens: Tensor, query_start_loc: Tensor, features: Features, out: Tensor
) -> None:
    """See `engine.attention.reference.prefill`; no sequence has more than MAX_SHORT query tokens."""
    split(query, kv, seq_lens, query_start_loc.contiguous(), features, out)


def split(
    query: Tensor, kv: KV, seq_lens: Tensor, starts: Tensor | None, features: Features, out: Tensor
) -> None:
    """Each sequence cut into chunks: the kernel that attends, and the one that puts chunks together."""
    check_device(query)
    check_possible(query, kv)
    num_rows, num_heads, head_dim = query.shape
    if num_rows == 0:
        return
    queries = 1 if starts is None else MAX_SHORT  # always that many, whoever else is in the batch
    group, sizes = num_heads // kv.num_kv_heads, launch_sizes(query, kv)
    launch = decode_launch(*sizes, is_paged=isinstance(kv, PagedKV))
    block_m = min(max(power_of_two(queries * group), launch.rows), max_decode_rows(sizes[0], sizes[2]))
    num_warps = 8 if block_m == MAX_DECODE_ROWS else launch.num_warps
    cut = (-(-min_chunk_tokens(group, queries) // launch.tile), max_chunks(kv.num_kv_heads))
    num_chunks = count_chunks(kv, features, queries, launch.tile, *cut)
    result, is_direct = writable(out), num_chunks == 1
    query, seq_lens = query.contiguous(), seq_lens.contiguous()
    lse = query.new_empty((num_rows, 0 if is_direct else num_chunks, num_heads), dtype=torch.float32)
    partial = lse.new_empty((*lse.shape, head_dim))
    lengths = (seq_lens, seq_lens if starts is None else starts)
    arguments = (query, *cache_pointers(query, kv), kv.table, *lengths, *feature_pointers(query, features))
    arguments += (result, partial, lse, *strides(query, kv, features, result))
    options = {"QUERIES": queries, "NUM_KV_HEADS": kv.num_kv_heads, "BLOCK_M": block_m, "TILE": launch.tile}
    options |= {"DIRECT": is_direct, **constants(query, kv, features)}
    options |= {"num_warps": num_warps, "num_stages": launch.num_stages}
    kernel: Any = decode_kernel
    grid = (kv.num_seqs * num_chunks, kv.num_kv_heads * -(-queries * group // block_m))
    kernel[grid](*arguments, num_chunks, *cut, *feature_numbers(features), **options)
    if not is_direct:
        arguments = (partial, lse, *lengths, result, result.stride(0), result.stride(1), num_chunks, *cut)
        options = {"QUERIES": queries, "NUM_HEADS": num_heads, "HEAD_DIM": head_dim}
        options |= {"BLOCK_D": padded(head_dim), "KEY_TILE": launch.tile, "TILE": REDUCE_TILE}
        options |= {"HAS_WINDOW": features.window is not None}
        kernel = reduce_kernel
        kernel[kv.num_seqs * queries, num_heads](*arguments, *feature_numbers(features)[2:], **options)
    finish(result, out)


def prefill(
    query: Tensor, kv: KV, seq_lens: Tensor, query_start_loc: Tensor, features: Features, out: Tensor
) -> None:
    """See `engine.attention.reference.prefill`."""
    check_device(query)
    check_possible(query, kv)
    num_tokens, num_heads, _ = query.shape
    if num_tokens == 0:
        return
    group = num_heads // kv.num_kv_heads
    is_paged, drops = isinstance(kv, PagedKV), features.seen_until is not None
    launch = prefill_launch(*launch_sizes(query, kv), is_paged=is_paged, drops=drops)
    block_m = max(launch.rows, power_of_two(group))
    result, query = writable(out), query.contiguous()
    arguments = (query, *cache_pointers(query, kv), kv.table, seq_lens.contiguous())
    arguments += (query_start_loc.contiguous(), *feature_pointers(query, features), result)
    arguments += (*strides(query, kv, features, result), kv.num_seqs, *feature_numbers(features))
    options = {"BLOCK_M": block_m, "TILE": launch.tile, **constants(query, kv, features)}
    options |= {"num_warps": launch.num_warps, "num_stages": launch.num_stages}
    kernel: Any = prefill_kernel
    kernel[num_tokens // (block_m // group) + kv.num_seqs, kv.num_kv_heads](*arguments, **options)
    finish(result, out)


def launch_sizes(query: Tensor, kv: KV) -> tuple[int, int, int]:
    """What the launch tables go by: bytes of a factor, bytes of a stored number, padded head_dim."""
    return factors_of(query, kv).itemsize, kv.stored.keys.dtype.itemsize, padded(kv.head_dim)


def count_chunks(kv: KV, features: Features, queries: int, tile: int, min_tiles: int, most: int) -> int:
    """A bound on the chunks of any sequence of the batch, without a look at the lengths, which would stop
    the stream: from the width of the table or arena, and the window."""
    num_tiles = -(-kv.max_tokens // tile)
    if features.window is not None:
        seen = features.window + queries - 1
        num_tiles = min(num_tiles, -(-seen // tile) + 1 + -(-features.sinks // tile))
    return max(min(-(-num_tiles // min_tiles), most), 1)
