"""What moves keys and values, bit for bit against torch's own operations."""

import torch
from torch import Tensor

from bench.gpu.batches import BACKEND, random
from engine.attention import copy_blocks, swap_blocks, write_kv

FLOATS = (torch.float32, torch.float16, torch.bfloat16)
CODES = (torch.int8, torch.float8_e4m3fn, torch.float8_e5m2)
SLOTS = (3, -1, 27, 14, 0, 100, 99, 5, -1)  # -1 is padding


def same_bits(left: Tensor, right: Tensor) -> bool:
    return torch.equal(left.view(torch.uint8), right.view(torch.uint8))


def spread(size: tuple[int, ...], powers: tuple[int, int], device: torch.device) -> Tensor:
    """Powers of ten in [first, last), as float32: 10 ** integers would be 0 below 10 ** 0."""
    return 10.0 ** torch.randint(*powers, size, device=device).float()


def written(device: torch.device) -> bool:
    """Slots as torch writes them, for every pair of dtypes, with scales, padding, and numbers of every size:
    below the smallest code, among the subnormal ones, and beyond the largest, which is 57344 for e5m2."""
    results: list[bool] = []
    for dtype in FLOATS if device.type == "cuda" else FLOATS[:1]:
        for cache_dtype in (*FLOATS, *CODES):
            key = random((9, 3, 80), torch.float32, device) * spread((9, 3, 80), (-9, 8), device)
            key, slots = key.to(dtype), torch.tensor(SLOTS, device=device)
            is_code = cache_dtype in CODES
            scales = {"k_scale": torch.tensor([1, 0.7, 3.0]), "v_scale": 0.3} if is_code else {}
            pools = [torch.zeros(2, 8, 16, 3, 80, device=device).to(cache_dtype) for _ in range(2)]
            for pool, backend in zip(pools, ("torch", BACKEND), strict=True):
                write_kv(key, key, pool[0], pool[1], slots, **scales, backend=backend)
            results.append(same_bits(*pools))
    return all(results)


def scaled(device: torch.device) -> bool:
    """Codes and the scale of each vector, as torch makes them: large and small ones, of numbers that reach
    from the largest code to below the smallest."""
    results: list[bool] = []
    for dtype in FLOATS if device.type == "cuda" else FLOATS[:1]:
        for code in CODES:
            sizes = spread((9, 3, 1), (-6, 5), device) * spread((9, 3, 80), (-6, 1), device)
            key = (random((9, 3, 80), torch.float32, device) * sizes).to(dtype)
            slots = torch.tensor(SLOTS, device=device)
            pools = [torch.zeros(2, 8, 16, 3, 80, device=device).to(code) for _ in range(2)]
            scales = [torch.zeros(2, 8, 16, 3, device=device) for _ in range(2)]
            for pool, own, backend in zip(pools, scales, ("torch", BACKEND), strict=True):
                options = {"key_scales": own[0], "value_scales": own[1], "backend": backend}
                write_kv(key, key, pool[0], pool[1], slots, **options)
            results += [same_bits(*pools), same_bits(*scales)]
    return all(results)


def copied(device: torch.device) -> bool:
    """One run a block, and a view of each layer."""
    storage = random((64, 3, 2, 5, 2, 24), torch.bfloat16, device)
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
        pool = random((16, 2, run), torch.bfloat16, device)
        host = torch.zeros(8, 2, run, dtype=torch.bfloat16, pin_memory=device.type == "cuda")
        before = pool.clone()
        swap_blocks([pool], [host], torch.tensor([[3, 0], [4, 1], [9, 7]]), backend=BACKEND)
        swap_blocks([host], [pool], torch.tensor([[0, 12], [1, 13], [7, 15]]), backend=BACKEND)
        results.append(
            same_bits(pool[[12, 13, 15]], before[[3, 4, 9]]) and same_bits(host[7], before[9].cpu())
        )
    return all(results)
