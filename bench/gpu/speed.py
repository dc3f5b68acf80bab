"""Sections that measure attention: decode, the price of pages, prefill."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch

from bench.gpu.batches import Shape, measure, small
from bench.gpu.here import Here
from engine.attention import triton_config

LONG, MEDIUM, MANY = (
    Shape(num_seqs=1, seq_len=32768),
    Shape(num_seqs=32, seq_len=4096),
    Shape(num_seqs=128, seq_len=1024),
)
SWEPT = {"B1 S32k": LONG, "B32 S4k": MEDIUM, "B128 S1k": MANY}
DECODES = {
    **SWEPT,
    "B1 S8k": replace(LONG, seq_len=8192),
    "B32 S4k, group 1": replace(MEDIUM, num_heads=8),
    "B32 S4k, group 7": replace(MEDIUM, num_heads=28, num_kv_heads=4),
    "B32 S4k, group 8": replace(MEDIUM, num_heads=64),
    "B32 S4k, dim 64": replace(MEDIUM, head_dim=64),
    "B32 S4k, dim 80": replace(MEDIUM, head_dim=80),
    "B32 S4k, dim 256": replace(MEDIUM, head_dim=256),
    "B32 S4k, fp16": replace(MEDIUM, dtype=torch.float16),
    "B32 S4k, fp32": replace(MEDIUM, dtype=torch.float32),
    "B32 S4k, fp8": replace(MEDIUM, cache_dtype=torch.float8_e4m3fn),
    "B32 S4k, int8": replace(MEDIUM, cache_dtype=torch.int8),
    "B32 S4k, fp8, scales of tokens": replace(MEDIUM, cache_dtype=torch.float8_e4m3fn, token_scales=True),
    "B32 S4k, int8, scales of tokens": replace(MEDIUM, cache_dtype=torch.int8, token_scales=True),
}
SHORTS = {
    "B1 S32k, 4 queries": replace(LONG, query_len=4),
    "B32 S4k, 4 queries": replace(MEDIUM, query_len=4),
    "B32 S4k, 8 queries": replace(MEDIUM, query_len=8),
    "B32 S4k, 4 queries, int8, scales of tokens": replace(
        MEDIUM, query_len=4, cache_dtype=torch.int8, token_scales=True
    ),
    "B32 S4k, 4 queries, contiguous": replace(MEDIUM, query_len=4, contiguous=True),
}
LAUNCHES = {
    f"tile {tile}, {num_warps} warps, {num_stages} stages": (tile, num_warps, num_stages)
    for tile, num_warps, num_stages in (
        (32, 4, 5), (32, 4, 7), (64, 4, 3), (64, 4, 5), (64, 4, 7), (64, 8, 5), (128, 8, 5)
    )
}  # fmt: skip
BLOCK_SIZES = (1, 8, 16, 32, 48, 64, 128, 256, 512)
PREFILLS = {
    "2k": Shape(num_seqs=4, seq_len=2048, query_len=2048),
    "8k": Shape(num_seqs=1, seq_len=8192, query_len=8192),
    "32k": Shape(num_seqs=1, seq_len=32768, query_len=32768),
    "chunk of 2k at 32k": Shape(num_seqs=1, seq_len=32768, query_len=2048),
    "8k, dim 64": Shape(num_seqs=1, seq_len=8192, query_len=8192, head_dim=64),
    "8k, contiguous": Shape(num_seqs=1, seq_len=8192, query_len=8192, contiguous=True),
}


def copy_bandwidth(device: torch.device) -> dict[str, Any]:
    """The yardstick: a copy of 1 GiB by the framework; bytes read and written a second."""
    from bench.gpu.timing import timed

    size = 2**30 if device.type == "cuda" else 2**22
    source = torch.randint(0, 100, (size,), dtype=torch.uint8, device=device)
    destination = torch.empty_like(source)
    result = timed([lambda: destination.copy_(source)], device)
    return {"bytes": 2 * size, "seconds": result.seconds, "bytes_per_s": 2 * size / result.seconds}


def bandwidth(full: Shape, here: Here) -> dict[str, Any]:
    """Bytes of keys and values a second, and their share of the copy's."""
    shape = small(full, here.device)
    result, num_sets = measure(shape, here.device)
    rate = shape.kv_bytes / result.seconds
    rates = {"bytes_per_s": rate, "share_of_copy": rate / here.copy_bytes_per_s}
    timing = {"seconds": result.seconds, "samples": result.samples, "graph": result.graph}
    return {**shape.facts(), **timing, "data_sets": num_sets, **rates}


def decode(here: Here) -> dict[str, Any]:
    """One query a sequence."""
    return {name: bandwidth(shape, here) for name, shape in here.cases(DECODES)}


def short(here: Here) -> dict[str, Any]:
    """A few queries a sequence, beside the prefill kernel, which does not split a context."""
    found: dict[str, Any] = {}
    for name, shape in here.cases(SHORTS):
        row, other = bandwidth(shape, here), bandwidth(replace(shape, splits=False), here)
        found[name] = row | {"by_the_prefill_kernel": other["seconds"] / row["seconds"]}
    return found


def chunks(here: Here) -> dict[str, Any]:
    """Decode with larger chunks than the table's."""
    usual, found = triton_config.MIN_CHUNK, {}
    swept = {
        f"{name}, chunks of {tokens}": (shape, tokens)
        for tokens in ((128, 256, 512, 1024, 4096) if here.is_gpu else (usual,))
        for name, shape in SWEPT.items()
    }
    try:
        for name, (shape, tokens) in here.cases(swept, 1):
            triton_config.MIN_CHUNK = tokens
            found[name] = bandwidth(shape, here)
    finally:
        triton_config.MIN_CHUNK = usual
    return found


def launches(here: Here) -> dict[str, Any]:
    """Decode with other tiles, warps and stages than the table's, at head_dim 128."""
    found: dict[str, Any] = {}
    swept = {
        f"{name}, {what}": (shape, launch)
        for what, launch in LAUNCHES.items()
        for name, shape in SWEPT.items()
    }
    for name, (shape, launch) in here.cases(swept, 1):
        with launched(launch):
            found[name] = bandwidth(shape, here)
    return found


@contextmanager
def launched(launch: tuple[int, int, int]) -> Iterator[None]:
    """Decode at head_dim 128 with this tile, number of warps and of stages."""
    key, (tile, num_warps, num_stages) = (2, 128), launch
    usual = triton_config.DECODE[key]
    triton_config.DECODE[key] = replace(usual, tile=tile, num_warps=num_warps, num_stages=num_stages)
    try:
        yield
    finally:
        triton_config.DECODE[key] = usual


def block_sizes(here: Here) -> dict[str, Any]:
    """Pages of every size against one run of slots, on the same numbers of the same batch."""
    baseline = bandwidth(replace(MEDIUM, contiguous=True), here)
    found = {"contiguous": baseline}
    sizes = {str(size): size for size in (BLOCK_SIZES if here.is_gpu else (1, 7))}
    for name, size in here.cases(sizes):
        row = bandwidth(replace(MEDIUM, block_size=size), here)
        found[name] = row | {"slower_than_contiguous": row["seconds"] / baseline["seconds"] - 1}
    return found


def prefill(here: Here) -> dict[str, Any]:
    """Floating-point operations a second of the two products, causal."""
    found: dict[str, Any] = {}
    for name, full in here.cases(PREFILLS, 1):
        shape = small(full, here.device)
        result, _ = measure(shape, here.device)
        timing = {"seconds": result.seconds, "samples": result.samples, "graph": result.graph}
        rates = {"flops": shape.flops, "flop_per_s": shape.flops / result.seconds}
        found[name] = {**shape.facts(), **timing, **rates}
    return found
