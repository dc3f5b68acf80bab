import pytest
import torch

from engine.attention import write_kv
from tests.engine.attention.cases import POISON

NAN = float("nan")


def new_pool(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.full((4, 3, 2, 8), NAN).to(dtype)


def test_each_token_lands_in_its_slot_and_nothing_else_changes() -> None:
    keys, values = new_pool(), new_pool()
    key, value = torch.randn(2, 3, 2, 8)
    write_kv(key, value, keys, values, torch.tensor([7, 0, 11]))
    for cache, new in ((keys, key), (values, value)):
        slots = cache.flatten(0, 1)
        assert torch.equal(slots[[7, 0, 11]], new)
        assert slots[[1, 2, 3, 4, 5, 6, 8, 9, 10]].isnan().all()


def test_a_slot_of_minus_one_writes_nothing() -> None:
    keys, values = new_pool(), new_pool()
    write_kv(torch.ones(3, 2, 8), torch.ones(3, 2, 8), keys, values, torch.tensor([-1, 4, -1]))
    assert (~keys.isnan()).sum() == 16
    assert (keys.flatten(0, 1)[4] == 1).all()


def test_an_arena_is_written_by_slot_too() -> None:
    keys, values = torch.full((12, 2, 8), NAN), torch.full((12, 2, 8), NAN)
    write_kv(torch.ones(1, 2, 8), torch.ones(1, 2, 8), keys, values, torch.tensor([5]))
    assert (keys[5] == 1).all()
    assert keys[[4, 6]].isnan().all()


def test_a_strided_view_of_a_larger_pool_is_written_in_place() -> None:
    pool = torch.full((4, 2, 2, 3, 2, 8), NAN)  # [blocks, layers, 2, block_size, heads, dim]
    qkv = torch.randn(2, 10, 8)
    write_kv(qkv[:, 6:8], qkv[:, 8:10], pool[:, 1, 0], pool[:, 1, 1], torch.tensor([4, 9]))
    assert torch.equal(pool[1, 1, 0, 1], qkv[0, 6:8])
    assert torch.equal(pool[3, 1, 1, 0], qkv[1, 8:10])
    assert (~pool.isnan()).sum() == 2 * 2 * 2 * 8


@pytest.mark.parametrize(
    ("dtype", "largest"), [(torch.int8, 127), (torch.float8_e4m3fn, 448), (torch.float8_e5m2, 57344)]
)
def test_a_quantized_cache_stores_the_nearest_code_and_never_wraps(dtype: torch.dtype, largest: int) -> None:
    keys, values = torch.zeros(4, 3, 2, 8).to(dtype), torch.zeros(4, 3, 2, 8).to(dtype)
    scale = torch.tensor([0.5, 2.0])
    key = torch.tensor([2.0, -2.0, 1e6, -1e6, 0.0, 8.0, 16.0, 1.0]).expand(1, 2, 8)
    write_kv(key, key, keys, values, torch.tensor([1]), k_scale=scale, v_scale=1.0)
    assert keys[0, 1, 0].float().tolist() == [4, -4, largest, -largest, 0, 16, 32, 2]
    assert keys[0, 1, 1].float().tolist()[:3] == [1, -1, largest]
    assert values[0, 1, 0].float().tolist()[:2] == [2, -2]


@pytest.mark.parametrize(
    ("slots", "complaint"),
    [
        ([0, 12, 1], r"slot_mapping\[1\] is 12: the pool has slots 0 to 11"),
        ([0, 1, -2], r"slot_mapping\[2\] is -2"),
        ([0, 1], r"slot_mapping has shape \[2\]: it must be \[3\]"),
    ],
)
def test_a_slot_outside_the_pool_is_an_error_and_writes_nothing(slots: list[int], complaint: str) -> None:
    keys, values = new_pool(), new_pool()
    with pytest.raises(ValueError, match=complaint):
        write_kv(torch.ones(3, 2, 8), torch.ones(3, 2, 8), keys, values, torch.tensor(slots))
    assert keys.isnan().all()


def test_scales_for_a_cache_that_is_not_quantized_are_an_error() -> None:
    new = torch.ones(1, 2, 8)
    with pytest.raises(ValueError, match="not quantized"):
        write_kv(new, new, new_pool(), new_pool(), torch.tensor([0]), k_scale=0.5)


def test_slots_must_be_64_bit() -> None:
    new = torch.ones(1, 2, 8)
    with pytest.raises(ValueError, match=r"slot_mapping is torch.int32: it must be int64"):
        write_kv(new, new, new_pool(), new_pool(), torch.tensor([POISON], dtype=torch.int32))
