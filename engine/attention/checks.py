"""Input checks: one clear line that carries the numbers and the remedy, before any kernel runs.

Shapes, dtypes and devices are always checked. Values (lengths, block ids, slots) only in CPU memory:
on a GPU, looking at them would stop the stream. The kernels there mask what they read instead.
"""

import torch
from torch import Tensor

from engine.attention.features import Features
from engine.attention.kv import KV, PagedKV, Stored

QUERY_DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
QUANTIZED_DTYPES = (torch.int8, torch.float8_e4m3fn, torch.float8_e5m2)
CACHE_DTYPES = QUERY_DTYPES + QUANTIZED_DTYPES


def require(is_met: bool, complaint: str) -> None:
    """Raises ValueError(complaint) unless the condition is met."""
    if not is_met:
        raise ValueError(complaint)


def require_dtype(name: str, tensor: Tensor, *dtypes: torch.dtype) -> None:
    """ValueError unless the tensor has one of the dtypes."""
    if tensor.dtype not in dtypes:  # the sentence is made only when it is needed: this runs at every step
        wanted = " or ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
        raise ValueError(f"{name} is {tensor.dtype}: it must be {wanted}")


def require_shape(name: str, tensor: Tensor, *shape: int | str) -> None:
    """ValueError unless the dimensions match; a str names a dimension that may have any size."""
    sizes = tensor.shape
    if sizes == shape:
        return
    if len(sizes) != len(shape) or any(
        want != got and not isinstance(want, str) for want, got in zip(shape, sizes, strict=True)
    ):
        wanted = ", ".join(str(size) for size in shape)
        raise ValueError(f"{name} has shape {list(sizes)}: it must be [{wanted}]")


def require_device(first: tuple[str, Tensor], *others: tuple[str, Tensor]) -> None:
    """ValueError unless all lie on the device of the first."""
    for name, tensor in others:
        if tensor.device != first[1].device:
            raise ValueError(
                f"{name} is on {tensor.device}, {first[0]} on {first[1].device}: move them to one device"
            )


def check_caches(key_cache: Tensor, value_cache: Tensor, *, num_dims: int) -> None:
    """A key and a value cache that belong together."""
    names = ("num_slots", "num_kv_heads", "head_dim")
    names = names if num_dims == 3 else ("num_blocks", "block_size", *names[1:])
    require_shape("the key cache", key_cache, *names)
    require_shape("the value cache", value_cache, *key_cache.shape)
    require(min(key_cache.shape[1:]) > 0, f"the key cache has shape {list(key_cache.shape)}: which is empty")
    require_dtype("the key cache", key_cache, *CACHE_DTYPES)
    require_dtype("the value cache", value_cache, key_cache.dtype)
    for name, cache in (("key", key_cache), ("value", value_cache)):
        require(
            cache.stride(-1) == 1 or cache.shape[-1] == 1,
            f"the {name} cache has stride {cache.stride(-1)} along head_dim: it must be 1",
        )


def check_stored(stored: Stored, *, num_dims: int) -> None:
    """Keys, values and, beside 8-bit codes, their scales."""
    keys, values, key_scales, value_scales = stored
    check_caches(keys, values, num_dims=num_dims)
    if key_scales is None and value_scales is None:
        return
    if key_scales is None or value_scales is None:
        raise ValueError("key_scales or value_scales alone: codes of keys and of values both need theirs")
    require(
        keys.dtype in QUANTIZED_DTYPES,
        f"the cache is {keys.dtype}, not quantized: leave key_scales and value_scales out",
    )
    for name, scales in (("key_scales", key_scales), ("value_scales", value_scales)):
        require_shape(name, scales, *keys.shape[:-1])
        require_dtype(name, scales, torch.float32)
        require_device(("the key cache", keys), (name, scales))
    require(
        key_scales.stride() == value_scales.stride(),
        f"key_scales has strides {key_scales.stride()}, value_scales {value_scales.stride()}: "
        "lay them out alike",
    )


def check_attention(query: Tensor, kv: KV, seq_lens: Tensor) -> None:
    """Shapes, dtypes and devices of decode and prefill."""
    require_shape("query", query, "num_tokens", "num_heads", kv.head_dim)
    require_dtype("query", query, *QUERY_DTYPES)
    num_heads = query.shape[1]
    require(
        num_heads > 0 and num_heads % kv.num_kv_heads == 0,
        f"query has {num_heads} heads, the cache {kv.num_kv_heads}: the first must be a multiple",
    )
    if isinstance(kv, PagedKV):
        require_shape("block_tables", kv.table, "num_seqs", "max_blocks")
        require_dtype("block_tables", kv.table, torch.int32)
        is_dense = kv.table.stride(1) == 1 or kv.table.shape[1] < 2
        require(is_dense, f"block_tables has stride {kv.table.stride(1)} along a row: it must be 1")
    else:
        require_shape("starts", kv.table.squeeze(1), "num_seqs")
        require_dtype("starts", kv.table, torch.int64)
    require_shape("seq_lens", seq_lens, kv.num_seqs)
    require_dtype("seq_lens", seq_lens, torch.int32)
    keys, values = kv.stored[:2]
    named = [("the key cache", keys), ("the value cache", values), ("the block table", kv.table)]
    require_device(("query", query), *named, ("seq_lens", seq_lens))


def check_seen_until(kv: KV, seq_lens: Tensor, seen_until: Tensor) -> None:
    """One number for each token that a sequence of the batch has."""
    require_shape("seen_until", seen_until, kv.num_seqs, "tokens")
    require_dtype("seen_until", seen_until, torch.int32)
    require_device(("seq_lens", seq_lens), ("seen_until", seen_until))
    is_dense = seen_until.stride(1) == 1 or seen_until.shape[1] < 2
    require(is_dense, f"seen_until has stride {seen_until.stride(1)} along a row: it must be 1")
    if not seq_lens.is_cuda and kv.num_seqs:
        longest = int(seq_lens.max())
        require(
            longest <= seen_until.shape[1],
            f"seen_until has {seen_until.shape[1]} columns for up to {longest} tokens: give one for each",
        )


def check_out(query: Tensor, out: Tensor) -> None:
    """A tensor for the result."""
    require_shape("out", out, *query.shape)
    require_dtype("out", out, query.dtype)
    require_device(("query", query), ("out", out))


def check_decode(query: Tensor, kv: KV, seq_lens: Tensor, features: Features) -> None:
    """One query row for each sequence, and what they read lies in the pool."""
    require(
        query.shape[0] == kv.num_seqs,
        f"query has {query.shape[0]} rows for {kv.num_seqs} sequences: decoding needs one for each",
    )
    if not query.is_cuda:
        check_reads(kv, seq_lens.to(torch.int64), seq_lens.to(torch.int64) - 1, features)


def check_prefill(
    query: Tensor,
    kv: KV,
    seq_lens: Tensor,
    query_start_loc: Tensor,
    features: Features,
    max_query_len: int | None = None,
) -> None:
    """Query rows are the last tokens of their sequences, and what they read lies in the pool."""
    require_shape("query_start_loc", query_start_loc, kv.num_seqs + 1)
    require_dtype("query_start_loc", query_start_loc, torch.int32)
    require_device(("query", query), ("query_start_loc", query_start_loc))
    if query.is_cuda:
        return
    bounds = query_start_loc.to(torch.int64)
    lengths, query_lens = seq_lens.to(torch.int64), bounds.diff()
    require(
        int(bounds[0]) == 0 and int(bounds[-1]) == query.shape[0] and bool((query_lens >= 0).all()),
        f"query_start_loc {shorten(bounds)}: must rise from 0 to {query.shape[0]}, the number of query rows",
    )
    for row in (query_lens > lengths).nonzero()[:1, 0].tolist():
        raise ValueError(
            f"sequence {row} has {query_lens[row]} query tokens but seq_lens {lengths[row]}: "
            "seq_lens counts the query tokens too"
        )
    for row in (query_lens > (max_query_len or query.shape[0])).nonzero()[:1, 0].tolist():
        raise ValueError(
            f"sequence {row} has {query_lens[row]} query tokens, max_query_len is {max_query_len}: "
            "give the largest, or None"
        )
    check_reads(kv, torch.where(query_lens > 0, lengths, 0), lengths - query_lens, features)


def check_reads(kv: KV, lengths: Tensor, first_query: Tensor, features: Features) -> None:
    """Every slot that will be read lies in the pool. `first_query`: each sequence's first query position."""
    for row in ((lengths < 0) | (lengths > kv.max_tokens)).nonzero()[:1, 0].tolist():
        raise ValueError(f"seq_lens[{row}] is {lengths[row]}: there is room for 0 to {kv.max_tokens} tokens")
    if isinstance(kv, PagedKV):
        check_table(kv, lengths, first_query, features)
        return
    starts, num_slots = kv.table[:, 0], kv.stored.keys.shape[0]
    is_outside = (starts < 0) | (starts + lengths > num_slots)
    for row in ((lengths > 0) & is_outside).nonzero()[:1, 0].tolist():
        raise ValueError(
            f"sequence {row} takes slots {starts[row]} to {starts[row] + lengths[row] - 1}: "
            f"the arena has slots 0 to {num_slots - 1}"
        )


def is_in_reach(first: Tensor, last: Tensor, first_query: Tensor, features: Features) -> Tensor:
    """Whether the window or the sinks hold one of the tokens [first, last]: bool [num_seqs, n], or [1, n]."""
    if features.window is None:
        return torch.ones_like(first, dtype=torch.bool)[None]
    return (last > first_query[:, None] - features.window) | (first < features.sinks)


def check_table(kv: PagedKV, lengths: Tensor, first_query: Tensor, features: Features) -> None:
    """The block ids that will be dereferenced; the others may hold anything."""
    columns, size = kv.table.shape[1], kv.block_size
    first_token = torch.arange(columns) * size  # of each column
    is_read = first_token < lengths[:, None]
    is_read &= is_in_reach(first_token, first_token + size - 1, first_query, features)
    if features.seen_until is not None:  # of a block, a token within reach must not be dropped
        tokens = torch.arange(columns * size)
        padding = (0, max(columns * size - features.seen_until.shape[1], 0))
        last = torch.nn.functional.pad(features.seen_until, padding, value=-1)[:, : columns * size]
        is_kept = (last >= first_query[:, None]) & is_in_reach(tokens, tokens, first_query, features)
        is_read &= is_kept.unflatten(1, (columns, size)).any(dim=2)
    num_blocks = kv.stored.keys.shape[0]
    is_bad = is_read & ((kv.table < 0) | (kv.table >= num_blocks))
    for row, column in is_bad.nonzero()[:1].tolist():
        raise ValueError(
            f"block_tables[{row}, {column}] is {int(kv.table[row, column])}: sequence {row} needs it for its "
            f"{int(lengths[row])} tokens, and the pool has blocks 0 to {num_blocks - 1}"
        )


def shorten(numbers: Tensor) -> str:
    """At most eight numbers, for an error message."""
    shown = numbers[:8].tolist()
    return str(shown) if numbers.numel() <= 8 else f"{str(shown)[:-1]}, ...]"
