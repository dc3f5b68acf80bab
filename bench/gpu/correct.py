"""Section: every kernel against float64, or bit for bit against torch's own operations."""

from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from bench.gpu.batches import BACKEND, random
from bench.gpu.here import Here
from engine.attention import copy_blocks, paged_attention, paged_prefill, swap_blocks, write_kv
from engine.attention.copy import BITS

TOLERANCE = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}
BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32
E4M3, E5M2, INT8 = torch.float8_e4m3fn, torch.float8_e5m2, torch.int8
CODES = (E4M3, INT8)  # that the engine's pools hold
CASES: dict[str, dict[str, Any]] = {
    **{f"{dtype}": {"dtype": dtype} for dtype in (BF16, FP16, FP32)},
    **{f"bf16, cache {code}": {"cache_dtype": code} for code in (E4M3, E5M2, INT8)},
    "fp16, cache int8": {"dtype": FP16, "cache_dtype": INT8},
    "fp32, cache e4m3": {"dtype": FP32, "cache_dtype": E4M3},
    **{f"head_dim {dim}": {"head_dim": dim} for dim in (32, 64, 80, 96, 256)},
    **{f"group {group}": {"group": group} for group in (1, 5, 6, 7, 24)},
    **{f"blocks of {size}": {"block_size": size} for size in (1, 7, 48, 512)},
    "window": {"window": 50},
    "window and sinks": {"window": 50, "sinks": 6},
    "ALiBi": {"alibi": True},
    "softcap": {"softcap": 5.0},
    **{
        f"bf16, cache {code}, scales of tokens": {"cache_dtype": code, "token_scales": True} for code in CODES
    },
    "fp32, int8, scales of tokens": {"dtype": FP32, "cache_dtype": INT8, "token_scales": True},
    "dropped tokens": {"drops": True},
    "all": {"window": 300, "sinks": 3, "alibi": True, "softcap": 9.0, "scale": 0.2, "dtype": FP16},
}


def correctness(here: Here) -> dict[str, Any]:
    """Name -> the largest difference and whether it is within what the dtype can hold."""
    device, found = here.device, {}
    names = list(CASES) if here.is_gpu else [str(FP32), "blocks of 7", "fp32, int8, scales of tokens"]
    lens, queries = ([0, 21], [0, 7])
    if here.is_gpu:
        lens, queries = ([0, 1, 37, 700, 2050, 3000], [0, 1, 20, 133, 40, 8])
    checks: dict[str, Any] = {check.__name__: check for check in (written, scaled, copied, swapped, alone)}
    checks |= {"far": far} if here.is_gpu else {}
    for name, check in here.cases(checks, len(checks)):
        found[name] = {"ok": check(device)}
    for name, options in here.cases({name: CASES[name] for name in names}, len(names)):
        found[name] = attention(lens, queries, device, **options)
    return found


def attention(
    lens: list[int], queries: list[int], device: torch.device, *, dtype: torch.dtype = BF16,
    cache_dtype: torch.dtype | None = None, head_dim: int = 128, group: int = 4, block_size: int = 16,
    alibi: bool = False, token_scales: bool = False, drops: bool = False, **options: Any,
) -> dict[str, Any]:  # fmt: skip
    """Decode, prefill and few queries of a ragged batch. Free slots hold NaN, free table entries 2**30."""
    torch.manual_seed(0)
    stored, num_kv_heads = cache_dtype or dtype, 2
    max_blocks = -(-max(lens) // block_size) + 1
    num_blocks = max_blocks * len(lens)
    size = (num_blocks, block_size, num_kv_heads, head_dim)
    order = torch.randperm(num_blocks, device=device).view(len(lens), -1).int()
    used = -(-torch.tensor(lens, device=device) // block_size)
    is_used = torch.arange(max_blocks, device=device) < used[:, None]
    table = order.where(is_used, 2**30)
    live = torch.zeros(size[:2], dtype=torch.bool, device=device)
    for row, length in enumerate(lens):
        tokens = torch.arange(length, device=device)
        live[order[row, tokens // block_size].long(), tokens % block_size] = True
    caches = [random(size, stored, device) for _ in range(2)]
    for cache in caches if stored != INT8 else ():
        poison = torch.full_like(cache.float(), float("nan")).to(stored)
        bits = BITS[stored.itemsize]
        cache.view(bits)[~live] = poison.view(bits)[~live]
    num_heads = 2 * group
    options |= {"k_scale": 0.02, "v_scale": 0.03} if stored == INT8 and not token_scales else {}
    if token_scales:
        free = torch.where(live[..., None], 0.0, float("nan"))
        for name in ("key_scales", "value_scales"):
            options[name] = torch.rand(size[:-1], device=device) * 0.03 + free
    if drops:
        tokens = torch.arange(max(lens), device=device)
        options["seen_until"] = (tokens + 40 * (1 + tokens % 3)).int().repeat(len(lens), 1)
    options |= {"alibi_slopes": torch.rand(num_heads, device=device)} if alibi else {}
    seq_lens = torch.tensor(lens, dtype=torch.int32, device=device)
    few = [min(count, 8) for count in queries]
    calls: list[tuple[Any, int, tuple[Tensor, ...], dict[str, Any]]] = [(paged_attention, len(lens), (), {})]
    for counts, more in ((queries, {}), (few, {"max_query_len": 8})):
        starts = torch.tensor([0, *accumulate(counts)], dtype=torch.int32, device=device)
        calls.append((paged_prefill, sum(counts), (starts,), more))
    worst = 0.0
    for function, rows, more, hint in calls:
        query = random((rows, num_heads, head_dim), dtype, device)
        exact_caches = caches if stored.itemsize == 1 else [cache.double() for cache in caches]
        exact = function(query.double(), *exact_caches, table, seq_lens, *more, **options, backend="torch")
        ours = {**options, **hint, "backend": BACKEND}
        result = function(query, *caches, table, seq_lens, *more, **ours)
        distance = ((result.double() - exact).abs() / (1 + exact.abs())).max().item()
        worst = max(worst, distance if result.isfinite().all() else float("inf"))
    tolerance = TOLERANCE[dtype]
    return {"largest_error": worst, "tolerance": tolerance, "ok": worst <= tolerance}


def same_bits(left: Tensor, right: Tensor) -> bool:
    return torch.equal(left.view(torch.uint8), right.view(torch.uint8))


def written(device: torch.device) -> bool:
    """Slots as torch writes them, for every pair of dtypes, with scales, out-of-range numbers and padding."""
    results: list[bool] = []
    for dtype in (FP32, FP16, BF16) if device.type == "cuda" else (FP32,):
        for cache_dtype in (FP32, FP16, BF16, INT8, E4M3, E5M2):
            key = random((9, 3, 80), FP32, device) * 10 ** torch.randint(-3, 4, (9, 3, 80), device=device)
            key, is_code = key.to(dtype), cache_dtype.itemsize == 1
            slots = torch.tensor([3, -1, 27, 14, 0, 100, 99, 5, -1], device=device)
            scales = {"k_scale": torch.tensor([1, 0.7, 3.0]), "v_scale": 0.3} if is_code else {}
            pools = [torch.zeros(2, 8, 16, 3, 80, device=device).to(cache_dtype) for _ in range(2)]
            for pool, backend in zip(pools, ("torch", BACKEND), strict=True):
                write_kv(key, key, pool[0], pool[1], slots, **scales, backend=backend)
            results.append(same_bits(*pools))
    return all(results)


def scaled(device: torch.device) -> bool:
    """Codes and the scale of each vector, as torch makes them."""
    results: list[bool] = []
    for dtype in (FP32, FP16, BF16) if device.type == "cuda" else (FP32,):
        for code in (INT8, E4M3, E5M2):
            key = random((9, 3, 80), FP32, device) * 10 ** torch.randint(-3, 4, (9, 3, 1), device=device)
            slots = torch.tensor([3, -1, 27, 14, 0, 100, 99, 5, -1], device=device)
            pools = [torch.zeros(2, 8, 16, 3, 80, device=device).to(code) for _ in range(2)]
            scales = [torch.zeros(2, 8, 16, 3, device=device) for _ in range(2)]
            for pool, own, backend in zip(pools, scales, ("torch", BACKEND), strict=True):
                key_scales, value_scales = own
                options = {"key_scales": key_scales, "value_scales": value_scales, "backend": backend}
                write_kv(key.to(dtype), key.to(dtype), pool[0], pool[1], slots, **options)
            results += [same_bits(*pools), same_bits(*scales)]
    return all(results)


def copied(device: torch.device) -> bool:
    """One run a block, and a view of each layer."""
    storage = random((64, 3, 2, 5, 2, 24), BF16, device)
    expected, pairs = storage.clone(), torch.tensor([[3, 9], [63, 0], [3, 11]])
    expected[[9, 0, 11]] = storage[[3, 63, 3]]
    views = [storage[:, layer, kind] for layer in range(3) for kind in range(2)]
    copy_blocks(views, pairs, backend=BACKEND)
    copy_blocks([storage], pairs[:1], backend=BACKEND)
    return same_bits(storage, expected)


def swapped(device: torch.device) -> bool:
    """To the host and back elsewhere, by runs and staged."""
    results: list[bool] = []
    for run in (80, 64 * 1024):
        pool = random((16, 2, run), BF16, device)
        host = torch.zeros(8, 2, run, dtype=BF16, pin_memory=device.type == "cuda")
        before = pool.clone()
        swap_blocks([pool], [host], torch.tensor([[3, 0], [4, 1], [9, 7]]), backend=BACKEND)
        swap_blocks([host], [pool], torch.tensor([[0, 12], [1, 13], [7, 15]]), backend=BACKEND)
        results.append(
            same_bits(pool[[12, 13, 15]], before[[3, 4, 9]]) and same_bits(host[7], before[9].cpu())
        )
    return all(results)


def alone(device: torch.device) -> bool:
    """A sequence's result does not change by a bit when its neighbours leave."""
    size, rows = (300, 16, 2, 64), [100, 900, 2000]
    caches = [random(size, FP16, device) for _ in range(2)]
    query = random((3, 8, 64), FP16, device)
    table = torch.randperm(300, device=device)[:252].view(2, 126).repeat(2, 1)[:3].int()
    lens = torch.tensor(rows, dtype=torch.int32, device=device)
    together = paged_attention(query, *caches, table, lens, backend=BACKEND)
    columns = -(-rows[1] // 16)
    one = paged_attention(query[1:2], *caches, table[1:2, :columns].contiguous(), lens[1:2], backend=BACKEND)
    return same_bits(one[0], together[1])


def far(device: torch.device) -> bool:
    """Blocks beyond 2**31 elements of a pool give what the same blocks give near its beginning."""
    size = (2**31 // (16 * 8 * 128) + 64, 16, 8, 128)
    pool = torch.zeros(size, dtype=BF16, device=device)
    near = random((40, 16, 8, 128), BF16, device)
    pool[-40:], pool[:40] = near, near
    query, lens = random((1, 32, 128), BF16, device), torch.tensor([630], dtype=torch.int32, device=device)
    first = torch.arange(40, dtype=torch.int32, device=device)[None]
    last = first + (size[0] - 40)
    results = [paged_attention(query, pool, pool, table, lens, backend=BACKEND) for table in (first, last)]
    return same_bits(*results) and bool(results[0].isfinite().all())
