"""Sections that measure what moves blocks: KV write, copy-on-write, swap."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from bench.gpu.batches import BACKEND, random
from bench.gpu.here import Here
from bench.gpu.timing import by_the_clock, num_sets, timed
from engine.attention import copy_blocks, swap_blocks, write_kv
from engine.attention.copy import move
from engine.attention.triton_copy import launch

NUM_KV_HEADS, HEAD_DIM, LAYERS = 8, 128, 32
CACHES = {  # dtype, and whether each token has a scale
    "bf16": (torch.bfloat16, False),
    "fp8": (torch.float8_e4m3fn, False),
    "fp8, scales of tokens": (torch.float8_e4m3fn, True),
    "int8, scales of tokens": (torch.int8, True),
}


def write(here: Here) -> dict[str, Any]:
    """New keys and values into random slots: bytes read and written."""
    kinds = {
        f"{num_tokens} tokens, {name}": (num_tokens, *kind)
        for num_tokens in ((1, 32, 256, 8192) if here.is_gpu else (3,))
        for name, kind in CACHES.items()
    }
    found: dict[str, Any] = {}
    for name, (num_tokens, cache_dtype, has_scales) in here.cases(kinds, 4):
        vector = HEAD_DIM * (2 + cache_dtype.itemsize) + 4 * has_scales
        moved = 2 * num_tokens * NUM_KV_HEADS * vector
        count = min(num_sets(moved, here.device), 32)
        kind = (num_tokens, cache_dtype, here.device)
        calls = [write_call(*kind, has_scales=has_scales) for _ in range(count)]
        result = timed(calls, here.device)
        rate = moved / result.seconds
        facts = {"bytes": moved, "seconds": result.seconds, "bytes_per_s": rate, "graph": result.graph}
        found[name] = facts | {"share_of_copy": rate / here.copy_bytes_per_s}
    return found


def write_call(num_tokens: int, cache_dtype: torch.dtype, device: torch.device, *, has_scales: bool) -> Any:
    num_blocks = 2 * -(-num_tokens // 16)
    key, value = (random((num_tokens, NUM_KV_HEADS, HEAD_DIM), torch.bfloat16, device) for _ in range(2))
    size = (num_blocks, 16, NUM_KV_HEADS, HEAD_DIM)
    caches = [torch.zeros(size, dtype=torch.uint8, device=device).to(cache_dtype) for _ in range(2)]
    slots = torch.randperm(num_blocks * 16, device=device)[:num_tokens]
    scales = {name: torch.zeros(size[:-1], device=device) for name in ("key_scales", "value_scales")}
    options: dict[str, Any] = scales if has_scales else {}
    return lambda: write_kv(key, value, *caches, slots, **options, backend=BACKEND)


def copy(here: Here) -> dict[str, Any]:
    """Copy-on-write of some blocks of all layers in one launch, in a block-major pool and in one a layer."""
    device, is_gpu, found = here.device, here.is_gpu, {}
    layers, num_blocks = (LAYERS, 1024) if is_gpu else (2, 8)
    storage = random((num_blocks, layers, 2, 16, NUM_KV_HEADS, HEAD_DIM), torch.bfloat16, device)
    apart = [storage[:, layer, kind] for layer in range(layers) for kind in range(2)]
    ways: dict[str, Callable[[Tensor], Any]] = {
        "one run a block": lambda pairs: copy_blocks([storage], pairs, backend=BACKEND),
        "each layer": lambda pairs: copy_blocks(apart, pairs, backend=BACKEND),
        "torch": lambda pairs: move(storage, storage, pairs),
    }
    cases = {
        f"{num_pairs} pairs, {way}": (num_pairs, call)
        for num_pairs in ((1, 16, 256) if is_gpu else (2,))
        for way, call in ways.items()
    }
    for name, (num_pairs, call) in here.cases(cases, len(cases)):
        moved = 2 * num_pairs * storage[0].nbytes
        sets = pair_sets(num_pairs, num_blocks, num_sets(moved, device), device)
        result = timed([partial(call, pairs) for pairs in sets], device)
        rate = moved / result.seconds
        facts = {"bytes": moved, "seconds": result.seconds, "bytes_per_s": rate, "graph": result.graph}
        facts |= {"data_sets": len(sets), "share_of_copy": rate / here.copy_bytes_per_s}
        found[name] = facts
    return found


def pair_sets(num_pairs: int, num_blocks: int, most: int, device: torch.device) -> list[Tensor]:
    """Sets of pairs that have no block in common, so that none finds its blocks in a cache."""
    count = min(most, num_blocks // (2 * num_pairs))
    order = torch.randperm(num_blocks, device=device)[: count * 2 * num_pairs]
    return list(order.view(count, num_pairs, 2))


def swap(here: Here) -> dict[str, Any]:
    """Bytes a second between GPU and host by the size of a run: as they are, staged, and by the copy kernel
    through pinned memory; beside one large transfer."""
    device, is_gpu, found = here.device, here.is_gpu, {}
    total = 64 * 2**20 if is_gpu else 2**14
    whole = torch.zeros(total, dtype=torch.uint8, device=device)
    host = torch.zeros(total, dtype=torch.uint8, pin_memory=is_gpu)
    ways = {"to host": (whole, host), "to GPU": (host, whole)}
    for way, (source, destination) in here.cases(
        {f"one transfer, {way}": pair for way, pair in ways.items()}
    ):
        result = by_the_clock(lambda a=source, b=destination: finish(b.copy_(a), device), 3)
        found[way] = {"bytes": total, "bytes_per_s": total / result.seconds}
    runs = (8192, 32768, 131072, 2097152) if is_gpu else (4096,)
    for _, run in here.cases({f"runs of {run}": run for run in runs}):
        found |= swap_runs(run, total, device)
    return found


def swap_runs(run: int, total: int, device: torch.device) -> dict[str, Any]:
    """All ways, with runs of one size."""
    from engine.attention.triton_swap import by_runs, staged

    found: dict[str, Any] = {}
    num_blocks = total // run
    pool = random((num_blocks, run // 2), torch.bfloat16, device)
    is_gpu = device.type == "cuda"
    host = torch.zeros((num_blocks, run // 2), dtype=torch.bfloat16, pin_memory=is_gpu)
    pairs = torch.stack([torch.randperm(num_blocks), torch.randperm(num_blocks)], dim=1)
    on_device = pairs.to(device)
    for way, (source, destination) in {"to host": (pool, host), "to GPU": (host, pool)}.items():
        ways = {
            "swap_blocks": lambda a=source, b=destination: swap_blocks([a], [b], pairs, backend=BACKEND),
            "runs": lambda a=source, b=destination: by_runs([a], [b], pairs),
            "staged": lambda a=source, b=destination: staged([a], [b], pairs),
            "kernel": lambda a=source, b=destination: launch([a], [b], on_device, device),
        }
        for name, call in ways.items():
            result = by_the_clock(lambda call=call: finish(call(), device), 3)
            rate = num_blocks * run / result.seconds
            found[f"runs of {run}, {way}, {name}"] = {"bytes": num_blocks * run, "bytes_per_s": rate}
    return found


def finish(_: Any, device: torch.device) -> None:
    """Waits for the GPU."""
    if device.type == "cuda":
        torch.cuda.synchronize()
