"""Section: every kernel against float64, or bit for bit against torch's own operations."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from bench.gpu.batches import BACKEND, random
from bench.gpu.correct_moves import copied, same_bits, scaled, swapped, written
from bench.gpu.here import Here
from bench.gpu.ragged import Case, Question, questions
from engine.attention import paged_attention

TOLERANCE = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}
BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32
E4M3, E5M2, INT8 = torch.float8_e4m3fn, torch.float8_e5m2, torch.int8
CODES = (E4M3, INT8)  # that the engine's pools hold
PAGED = {  # what few other checks reach comes first, sizes of the same thing last
    **{f"{dtype}": Case(dtype=dtype) for dtype in (BF16, FP16, FP32)},
    "window": Case(options={"window": 50}),
    "window and sinks": Case(options={"window": 50, "sinks": 6}),
    "ALiBi": Case(alibi=True),
    "softcap": Case(options={"softcap": 5.0}),
    "dropped tokens": Case(drops=True),
    **{f"bf16, cache {code}, scales of tokens": Case(cache_dtype=code, token_scales=True) for code in CODES},
    "fp32, int8, scales of tokens": Case(dtype=FP32, cache_dtype=INT8, token_scales=True),
    "all": Case(dtype=FP16, alibi=True, options={"window": 300, "sinks": 3, "softcap": 9.0, "scale": 0.2}),
    **{f"bf16, cache {code}": Case(cache_dtype=code) for code in (E4M3, E5M2, INT8)},
    "fp16, cache int8": Case(dtype=FP16, cache_dtype=INT8),
    "fp32, cache e4m3": Case(dtype=FP32, cache_dtype=E4M3),
    **{f"head_dim {dim}": Case(head_dim=dim) for dim in (32, 64, 80, 96, 256)},
    **{f"group {group}": Case(group=group) for group in (1, 5, 6, 7, 24)},
    **{f"blocks of {size}": Case(block_size=size) for size in (1, 7, 48, 512)},
}
CONTIGUOUS = {
    f"{name}, contiguous": replace(case, is_contiguous=True)
    for name, case in PAGED.items()
    if not name.startswith("blocks of")
}
CASES = PAGED | CONTIGUOUS
ON_A_CPU = (str(FP32), "blocks of 7", "fp32, int8, scales of tokens", f"{FP32}, contiguous")


def cases(*, is_gpu: bool) -> dict[str, Case]:
    """All of them, or what an interpreter gets through."""
    return CASES if is_gpu else {name: CASES[name] for name in ON_A_CPU}


def asked(case: Case, device: torch.device) -> list[Question]:
    """The case's calls, over contexts that on a GPU take one chunk and several."""
    lens, queries = ([0, 21], [0, 7])
    if device.type == "cuda":
        lens, queries = ([0, 1, 37, 700, 2050, 3000], [0, 1, 20, 133, 40, 8])
    return list(questions(case, lens, queries, device))


def correctness(here: Here) -> dict[str, Any]:
    """Name -> whether it is right and, of attention, the largest difference and what the dtype can hold."""
    device = here.device
    checks: dict[str, Check] = {check.__name__: check for check in (written, scaled, copied, swapped, alone)}
    checks |= {"far": far} if here.is_gpu else {}
    few = cases(is_gpu=here.is_gpu)
    found = {name: outcome(check, device) for name, check in here.cases(checks, len(checks))}
    return found | {
        name: outcome(lambda device, case=case: attention(case, device), device)
        for name, case in here.cases(few, len(few))
    }


Check = Callable[[torch.device], bool | dict[str, Any]]


def outcome(check: Check, device: torch.device) -> dict[str, Any]:
    """Of one check; one that fails in any way is wrong, and the others go on."""
    try:
        result = check(device)
    except Exception as error:  # noqa: BLE001  (whatever a driver or compiler throws is the finding)
        return {"ok": False, "error": f"{type(error).__name__}: {error}"[:500]}
    return {"ok": result} if isinstance(result, bool) else result


def attention(case: Case, device: torch.device) -> dict[str, Any]:
    """Decode, prefill and few queries of a ragged batch."""
    worst, tolerance = 0.0, TOLERANCE[case.dtype]
    for question in asked(case, device):
        exact, result = question.exact(), question.answer()
        distance = ((result.double() - exact).abs() / (1 + exact.abs())).max().item()
        worst = max(worst, distance if result.isfinite().all() else float("inf"))
    return {"largest_error": worst, "tolerance": tolerance, "ok": worst <= tolerance}


def alone(device: torch.device) -> bool:
    """A sequence's result does not change by a bit when its neighbours leave: one of one chunk, for which
    another kernel is compiled where nobody has more, and one of several."""
    size, rows = (300, 16, 2, 64), [100, 900, 2000]
    caches = [random(size, FP16, device) for _ in range(2)]
    query = random((3, 8, 64), FP16, device)
    table = torch.randperm(300, device=device)[:252].view(2, 126).repeat(2, 1)[:3].int()
    lens = torch.tensor(rows, dtype=torch.int32, device=device)
    together = paged_attention(query, *caches, table, lens, backend=BACKEND)
    results: list[bool] = []
    for row in (0, 1):
        only, columns = slice(row, row + 1), -(-rows[row] // 16)
        narrow = table[only, :columns].contiguous()
        one = paged_attention(query[only], *caches, narrow, lens[only], backend=BACKEND)
        results.append(same_bits(one[0], together[row]))
    return all(results)


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
