"""Caches of 8-bit codes: the bytes that the simulator counts, numbers within a code of what was stored."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from engine.attention import write_kv
from engine.attention.kv import Stored
from engine.attention.prepared import Prepared
from engine.measure import execute
from engine.pool import PagedPool
from engine.quantized import QUANTIZED, layers_of, new_blocks
from engine.sentinel import is_written, scan_parts, sentinel_bits
from engine.setup import make_model, make_pool
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


def pool_of_codes(dtype: torch.dtype, num_blocks: int) -> tuple[list[Tensor], Stored]:
    """Blocks of 4 slots of one layer with 3 heads of 16, and that layer."""
    _, parts = new_blocks(num_blocks, (1, 2, 4, 3, 16), dtype, CPU)
    return parts, layers_of(parts, layer_dim=1)[0]


def read_back(stored: Stored, slots: Tensor) -> Tensor:
    """Keys as numbers [T, HKV, D]."""
    assert stored.key_scales is not None
    return (stored.keys.float() * stored.key_scales[..., None]).flatten(0, 1)[slots]


def store(numbers: Tensor, stored: Stored, slots: Tensor) -> None:
    scales = {"key_scales": stored.key_scales, "value_scales": stored.value_scales}
    write_kv(numbers, numbers, stored.keys, stored.values, slots, **scales)


@pytest.mark.parametrize(("dtype", "error"), list(zip(DTYPES, (1 / 254, 1 / 16), strict=True)), ids=str)
def test_what_is_read_back_is_within_half_a_code_of_what_was_stored(dtype: torch.dtype, error: float) -> None:
    numbers = (
        torch.randn(50, 3, 16, generator=torch.Generator().manual_seed(1))
        * torch.logspace(-6, 6, 50)[:, None, None]
    )
    parts, stored = pool_of_codes(dtype, 16)
    slots = torch.randperm(64, generator=torch.Generator().manual_seed(2))[:50]
    store(numbers, stored, slots)
    back = read_back(stored, slots)
    assert ((back - numbers).abs() <= error * 1.001 * numbers.abs().amax(dim=-1, keepdim=True)).all()
    written, torn = scan_parts(parts, slot_dims=(0, 3))
    assert written[slots].all()
    assert written.sum() == 50
    assert not torn.any()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_code_without_its_scale_and_a_scale_without_its_code_are_seen(dtype: torch.dtype) -> None:
    parts, stored = pool_of_codes(dtype, 2)
    store(torch.ones(3, 3, 16), stored, torch.tensor([1, 4, 6]))
    for part, block, offset in ((parts[0], 0, 1), (parts[1], 1, 0)):
        bits, code = sentinel_bits(part)
        bits[block, :, :, offset] = code
    _, torn = scan_parts(parts, slot_dims=(0, 3))
    assert np.flatnonzero(torn).tolist() == [1, 4]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_block_of_codes_and_scales_is_one_run_and_its_rows_begin_at_16_bytes(dtype: torch.dtype) -> None:
    storage, parts = new_blocks(3, (2, 2, 4, 3, 16), dtype, CPU)
    assert storage[1].is_contiguous()
    assert storage.nbytes == sum(part.nbytes for part in parts) == 3 * 2 * 2 * 4 * 3 * (16 + 4)
    for stored in layers_of(parts, layer_dim=1):
        for codes in stored[:2]:
            assert all(stride % 16 == 0 for stride in codes.stride()[:-1])
            assert (codes.data_ptr() - storage.data_ptr()) % 16 == 0


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("strange", [torch.nan, -torch.nan, torch.inf], ids=str)
def test_what_is_no_number_is_read_back_as_none_and_never_looks_like_an_empty_slot(
    dtype: torch.dtype, strange: float
) -> None:
    parts, stored = pool_of_codes(dtype, 1)
    numbers = torch.ones(1, 3, 16)
    numbers[0, 0, 3] = strange
    store(numbers, stored, torch.tensor([2]))
    written, torn = scan_parts(parts, slot_dims=(0, 3))
    assert (written.tolist(), torn.any()) == ([False, False, True, False], False)
    assert is_written(stored.keys[0, 2]).all()
    assert read_back(stored, torch.tensor([2]))[0, 0].isnan().any()


@pytest.mark.parametrize("kv_dtype", ["int8", "fp8"])
def test_no_pool_is_ever_widened(kv_dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What attention gets is the pool's own memory, codes and scales, in decodes and prompts alike."""
    seen: list[tuple[torch.dtype, bool]] = []
    call = Prepared.__call__

    def look(self: Prepared, query: Tensor, stored: Stored, out: Tensor) -> None:
        memory = {part.untyped_storage().data_ptr() for part in stored if part is not None}
        seen.append((stored.keys.dtype, memory == {pool.storage.untyped_storage().data_ptr()}))
        call(self, query, stored, out)

    monkeypatch.setattr(Prepared, "__call__", look)
    config = tiny(**PRESSED, kv_dtype=kv_dtype)
    pool = make_pool(config, CPU)
    assert isinstance(pool, PagedPool)
    execute(CROWD, config, make_model(config, CPU), pool, backend="cpu")
    assert set(seen) == {(QUANTIZED[kv_dtype], True)}
