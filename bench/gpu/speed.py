"""Sections that measure attention: decode, the price of pages, prefill."""

from dataclasses import replace
from typing import Any

import torch

from bench.gpu.batches import Shape, chosen, measure, small
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
}
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


def decode(device: torch.device, yardstick: float) -> dict[str, Any]:
    """Bytes of keys and values a second, and their share of the copy's."""
    shapes = chosen(DECODES, device)
    return {name: bandwidth(small(shape, device), device, yardstick) for name, shape in shapes.items()}


def bandwidth(shape: Shape, device: torch.device, yardstick: float) -> dict[str, Any]:
    result, num_sets = measure(shape, device)
    rate = shape.kv_bytes / result.seconds
    rates = {"bytes_per_s": rate, "share_of_copy": rate / yardstick}
    timing = {"seconds": result.seconds, "samples": result.samples, "graph": result.graph}
    return {**shape.facts(), **timing, "data_sets": num_sets, **rates}


def chunks(device: torch.device, yardstick: float) -> dict[str, Any]:
    """Decode with larger chunks than the table's."""
    usual, found = triton_config.MIN_CHUNK, {}
    try:
        for tokens in (128, 256, 512, 1024, 4096) if device.type == "cuda" else (usual,):
            triton_config.MIN_CHUNK = tokens
            for name, shape in chosen(SWEPT, device, 1).items():
                found[f"{name}, chunks of {tokens}"] = bandwidth(small(shape, device), device, yardstick)
    finally:
        triton_config.MIN_CHUNK = usual
    return found


def launches(device: torch.device, yardstick: float) -> dict[str, Any]:
    """Decode with other tiles, warps and stages than the table's, at head_dim 128."""
    key, found = (2, 128), {}
    usual = triton_config.DECODE[key]
    sweep = [(32, 4, 5), (32, 4, 7), (64, 4, 3), (64, 4, 5), (64, 4, 7), (64, 8, 5), (128, 8, 5)]
    try:
        for tile, num_warps, num_stages in sweep if device.type == "cuda" else sweep[:1]:
            triton_config.DECODE[key] = replace(usual, tile=tile, num_warps=num_warps, num_stages=num_stages)
            for name, shape in chosen(SWEPT, device, 1).items():
                row = bandwidth(small(shape, device), device, yardstick)
                found[f"{name}, tile {tile}, {num_warps} warps, {num_stages} stages"] = row
    finally:
        triton_config.DECODE[key] = usual
    return found


def block_sizes(device: torch.device, yardstick: float) -> dict[str, Any]:
    """Pages of every size against one run of slots, on the same numbers of the same batch."""
    base = small(MEDIUM, device)
    baseline = bandwidth(replace(base, contiguous=True), device, yardstick)
    found = {"contiguous": baseline}
    for size in BLOCK_SIZES if device.type == "cuda" else (1, 7):
        row = bandwidth(replace(base, block_size=size), device, yardstick)
        found[str(size)] = row | {"slower_than_contiguous": row["seconds"] / baseline["seconds"] - 1}
    return found


def prefill(device: torch.device, yardstick: float) -> dict[str, Any]:
    """Floating-point operations a second of the two products, causal."""
    found: dict[str, Any] = {}
    for name, full in chosen(PREFILLS, device, 1).items():
        shape = small(full, device)
        result, _ = measure(shape, device)
        timing = {"seconds": result.seconds, "samples": result.samples, "graph": result.graph}
        found[name] = {
            **shape.facts(),
            **timing,
            "flops": shape.flops,
            "flop_per_s": shape.flops / result.seconds,
        }
    return found
