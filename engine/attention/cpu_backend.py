"""Attention backend `cpu`: cuts a call into tasks, shares them out to threads, puts the result together.

Threads are Python's own: the loops release the GIL, any number of callers may come at once, and
numba's parallel layer (of which one kind breaks under two callers) is not used at all.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.attention.backends import Run
from engine.attention.checks import require
from engine.attention.cpu_decode import CHUNK, decode_chunks, merge_chunks
from engine.attention.cpu_prefill import NUM_ROWS, prefill_tiles
from engine.attention.features import Features
from engine.attention.kv import KV, Stored
from engine.team import team_size, together

PIECES_PER_THREAD = 4  # so that a thread that lost its core for a while delays one piece only
MIN_SHARED_READS = 1 << 16  # numbers read; with fewer, waking threads costs more than it saves
NO_WINDOW = 1 << 62

STORED_AS = {  # see `engine.attention.cpu_vectors`
    torch.float32: torch.float32,
    torch.float16: torch.uint16,
    torch.bfloat16: torch.int16,
    torch.int8: torch.int8,
    torch.float8_e4m3fn: torch.uint8,
    torch.float8_e5m2: torch.bool,
}

Array = np.ndarray[Any, Any]
NO_SCALES = np.zeros(0, np.float32)


def decode(query: Tensor, kv: KV, seq_lens: Tensor, features: Features, out: Tensor) -> None:
    """See `engine.attention.reference.decode`."""
    plan_decode(query, kv, seq_lens, features)(query, kv.stored, out)


def prefill(
    query: Tensor, kv: KV, seq_lens: Tensor, query_start_loc: Tensor, features: Features, out: Tensor
) -> None:
    """See `engine.attention.reference.prefill`."""
    plan_prefill(query, kv, seq_lens, query_start_loc, features)(query, kv.stored, out)


def plan_decode(query: Tensor, kv: KV, seq_lens: Tensor, features: Features) -> Run:
    """Decode of one step: tasks, table and room to work in are the same in every layer."""
    check_device_and_dtype(query, kv)
    lengths = seq_lens.numpy().astype(np.int64)
    tasks, first_task = decode_tasks(lengths, features)
    num_reads = int((tasks[:, 2] - tasks[:, 1]).sum()) * kv.num_kv_heads * kv.head_dim
    sums = np.empty((len(tasks), *query.shape[1:]), np.float32)
    tops, totals = np.empty((2, len(tasks), query.shape[1]), np.float32)
    result = np.empty(query.shape, np.float32)
    layout, options = layout_arguments(kv), feature_arguments(query, kv, features)

    def run(query: Tensor, stored: Stored, out: Tensor) -> None:
        scaled = scaled_query(query, kv, features)
        cache = tuple(map(flat, stored))

        def work(first: int, last: int) -> None:
            decode_chunks(first, last, tasks, scaled, *cache, *layout, lengths, *options, sums, tops, totals)

        share_out(work, len(tasks), num_reads)
        merge_chunks(first_task, sums, tops, totals, result)
        store(result, kv, features, out)

    return run


def plan_prefill(query: Tensor, kv: KV, seq_lens: Tensor, query_start_loc: Tensor, features: Features) -> Run:
    """Prefill of one step: as `plan_decode`."""
    check_device_and_dtype(query, kv)
    tile_tokens = max(NUM_ROWS * kv.num_kv_heads // query.shape[1], 1)
    tasks = prefill_tasks(seq_lens.tolist(), query_start_loc.tolist(), kv.num_kv_heads, tile_tokens)
    result = np.zeros(query.shape, np.float32)  # rows that belong to no sequence stay zero
    layout, options = layout_arguments(kv), feature_arguments(query, kv, features)

    def run(query: Tensor, stored: Stored, out: Tensor) -> None:
        scaled = scaled_query(query, kv, features)
        cache = tuple(map(flat, stored))

        def work(first: int, last: int) -> None:
            prefill_tiles(first, last, tasks, scaled, *cache, *layout, *options, result)

        share_out(work, len(tasks), len(tasks) * NUM_ROWS * kv.head_dim)
        store(result, kv, features, out)

    return run


short, plan_short = prefill, plan_prefill  # a tile of theirs holds the few tokens of all heads already


def check_device_and_dtype(query: Tensor, kv: KV) -> None:
    """What this backend cannot do, and which one can."""
    device = query.device
    require(
        device.type == "cpu", f'backend "cpu" reads CPU memory, query is on {device}: use backend="triton"'
    )
    is_double = torch.float64 in (query.dtype, kv.stored.keys.dtype)
    require(not is_double, 'backend "cpu" computes in float32, not float64: use backend="torch"')


def decode_tasks(lengths: Array, features: Features) -> tuple[Array, Array]:
    """int64 [n, 3]: sequence, first token, end of every chunk with a visible token; int64 [num_seqs + 1]."""
    num_chunks = -(-lengths // CHUNK)
    sequence = np.repeat(np.arange(len(lengths)), num_chunks)
    start = (np.arange(len(sequence)) - np.repeat(np.cumsum(num_chunks) - num_chunks, num_chunks)) * CHUNK
    end = np.minimum(start + CHUNK, lengths[sequence])
    if features.window is not None:
        is_visible = (end > lengths[sequence] - features.window) | (start < features.sinks)
        sequence, start, end = sequence[is_visible], start[is_visible], end[is_visible]
    first_task = np.searchsorted(sequence, np.arange(len(lengths) + 1))
    return np.stack([sequence, start, end], axis=1), first_task


def prefill_tasks(lengths: list[int], bounds: list[int], num_kv_heads: int, tile_tokens: int) -> Array:
    """int64 [n, 5]: sequence, kv head, first query row, end, position of that row; longest first."""
    tasks = [
        (sequence, kv_head, row, min(row + tile_tokens, end), length - end + row)
        for sequence, (length, start, end) in enumerate(zip(lengths, bounds, bounds[1:], strict=False))
        for row in range(start, end, tile_tokens)
        for kv_head in range(num_kv_heads)
    ]
    return np.array(sorted(tasks, key=lambda task: -task[4]), dtype=np.int64).reshape(-1, 5)


def scaled_query(query: Tensor, kv: KV, features: Features) -> Array:
    """The query as float32, times every factor that the scores have in common."""
    scaled = query.detach().to(torch.float32) * features.scale
    if features.k_scale is not None:
        scaled = scaled * features.k_scale.repeat_interleave(query.shape[1] // kv.num_kv_heads)[:, None]
    return scaled.contiguous().numpy()


def layout_arguments(kv: KV) -> tuple[Any, ...]:
    """How the kernels find a number in a layer's flat caches: strides, the table, the block size."""
    keys, values, key_scales, _ = kv.stored
    of_scales = (0, 0, 0) if key_scales is None else kv.strides(key_scales)
    strides = np.array([kv.strides(keys), kv.strides(values), of_scales], dtype=np.int64)
    table = kv.table.numpy().astype(np.int64)
    return strides, table, kv.block_size


def flat(cache: Tensor | None) -> Array:
    """The memory from the first element to the last as one array, without a copy; empty for no tensor."""
    if cache is None:
        return NO_SCALES
    span = sum((size - 1) * stride for size, stride in zip(cache.shape, cache.stride(), strict=True)) + 1
    is_empty = cache.numel() == 0
    return cache.detach().view(STORED_AS[cache.dtype]).as_strided((0 if is_empty else span,), (1,)).numpy()


def feature_arguments(query: Tensor, kv: KV, features: Features) -> tuple[Any, ...]:
    """sinks, window, until [num_seqs, tokens], softcap, slopes [num_kv_heads, group]; 0 and empty: none."""
    until = features.seen_until
    until = np.zeros((kv.num_seqs, 0), np.int32) if until is None else np.ascontiguousarray(until.numpy())
    window = NO_WINDOW if features.window is None else features.window
    slopes = torch.zeros(query.shape[1]) if features.alibi_slopes is None else features.alibi_slopes
    slopes = slopes.reshape(kv.num_kv_heads, -1).numpy()
    return features.sinks, window, until, np.float32(features.softcap or 0), slopes


def store(result: Array, kv: KV, features: Features, out: Tensor) -> None:
    """out = result * v_scale, in out's dtype."""
    numbers = torch.from_numpy(result)
    if features.v_scale is not None:
        numbers = numbers * features.v_scale.repeat_interleave(out.shape[1] // kv.num_kv_heads)[:, None]
    out.copy_(numbers)


def share_out(work: Callable[[int, int], None], num_tasks: int, num_reads: int) -> None:
    """Calls work(first, last) on ranges that cover all tasks, on all threads of the team."""
    num_threads = team_size()
    if num_threads == 1 or num_reads < MIN_SHARED_READS:
        work(0, num_tasks)
        return
    num_pieces = min(num_threads * PIECES_PER_THREAD, num_tasks)
    cuts = [num_tasks * piece // num_pieces for piece in range(num_pieces + 1)]
    pieces = pairwise(cuts)  # who asks for the next one gets it

    def work_on() -> None:
        for first, last in pieces:
            work(first, last)

    together(work_on)
