"""Caches of 8-bit codes: the bytes that the simulator counts, numbers within a code of what was stored."""

from typing import Any

import pytest
import torch

from engine.quantized import codes_of, put, scales_of, vector_bytes, widen
from engine.sentinel import is_written, new_pool
from tests.engine.running import CROWD, PRESSED, ROOMY, assert_exact, crowd, tiny

CPU = torch.device("cpu")
DTYPES = [torch.int8, torch.float8_e4m3fn]
POLICIES: list[dict[str, Any]] = [
    PRESSED,
    {**PRESSED, "preempt": "swap"},
    {"allocator": "max", "pool_tokens": 450},
    {"allocator": "grow", "pool_tokens": 300},
    {"allocator": "virtual", "pool_tokens": 180, "page_size": "1KiB"},
]


@pytest.mark.parametrize("kv_dtype", ["int8", "fp8"])
def test_the_pool_has_the_bytes_that_the_simulator_counts_scales_included(kv_dtype: str) -> None:
    facts = crowd(**ROOMY, kv_dtype=kv_dtype).meta["engine"]
    assert facts["kv_bytes_per_token"] == tiny(kv_dtype=kv_dtype).spec.kv_bytes_per_token(kv_dtype) == 160
    assert facts["kv_pool_bytes"] == 4096 * 160


@pytest.mark.parametrize("kv_dtype", ["int8", "fp8"])
@pytest.mark.parametrize("dials", POLICIES, ids=lambda dials: "-".join(map(str, dials.values())))
def test_a_quantized_cache_is_exact_and_emits_the_same_tokens_wherever_it_lies(
    kv_dtype: str, dials: dict[str, Any]
) -> None:
    _, measured = assert_exact(CROWD, tiny(kv_dtype=kv_dtype, **dials))
    assert measured.tokens == crowd(**ROOMY, kv_dtype=kv_dtype).tokens


def test_int8_changes_few_tokens_of_a_whole_run() -> None:
    exact, narrow = crowd(**ROOMY).tokens, crowd(**ROOMY, kv_dtype="int8").tokens
    same = [ours == theirs for name in exact for ours, theirs in zip(exact[name], narrow[name], strict=True)]
    assert sum(same) > 0.6 * len(same)  # one that differs takes all that follow it along


@pytest.mark.parametrize(("dtype", "error"), list(zip(DTYPES, (1 / 254, 1 / 16), strict=True)), ids=str)
def test_what_is_read_back_is_within_half_a_code_of_what_was_stored(dtype: torch.dtype, error: float) -> None:
    numbers = (
        torch.randn(50, 3, 16, generator=torch.Generator().manual_seed(1))
        * torch.logspace(-6, 6, 50)[:, None, None]
    )
    stored = new_pool((64, 3, vector_bytes(16, dtype)), dtype, CPU)
    slots = torch.randperm(64, generator=torch.Generator().manual_seed(2))[:50]
    ready = put(numbers, stored, slots)
    codes = ready.round() if dtype == torch.int8 else ready
    codes_of(stored).view(torch.uint8)[slots] = codes.to(dtype).view(torch.uint8)
    back = widen(stored, slots, torch.float32)
    assert ((back - numbers).abs() <= error * 1.001 * numbers.abs().amax(dim=-1, keepdim=True)).all()
    written = is_written(stored[..., 0])
    assert written[slots].all()
    assert int(written.sum()) == 50 * 3


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_vector_of_zeros_stays_zeros_and_counts_as_written(dtype: torch.dtype) -> None:
    stored = new_pool((4, 1, vector_bytes(8, dtype)), dtype, CPU)
    ready = put(torch.zeros(1, 1, 8), stored, torch.tensor([2]))
    codes_of(stored)[2] = ready[0].to(dtype)
    assert (widen(stored, torch.tensor([2]), torch.float32) == 0).all()
    assert float(scales_of(stored)[2]) == 1.0
    assert is_written(stored).any(dim=-1).flatten().tolist() == [False, False, True, False]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("strange", [torch.nan, -torch.nan, torch.inf], ids=str)
def test_what_is_no_number_is_read_back_as_none_and_never_looks_like_an_empty_slot(
    dtype: torch.dtype, strange: float
) -> None:
    stored = new_pool((4, 1, vector_bytes(8, dtype)), dtype, CPU)
    numbers = torch.ones(1, 1, 8)
    numbers[0, 0, 3] = strange
    codes_of(stored)[2] = put(numbers, stored, torch.tensor([2]))[0].to(dtype)
    assert is_written(codes_of(stored)[2]).all()
    assert widen(stored, torch.tensor([2]), torch.float32).isnan().any()
