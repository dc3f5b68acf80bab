import pytest
import torch

from engine.attention import copy_blocks, swap_blocks


def pool(num_blocks: int = 6) -> torch.Tensor:
    return torch.randn(num_blocks, 3, 2, 8)


def test_a_copy_changes_its_destination_in_every_cache_and_nothing_else() -> None:
    caches = [pool(), pool()]
    before = [cache.clone() for cache in caches]
    copy_blocks(caches, torch.tensor([[0, 3], [5, 1]]))
    for cache, old in zip(caches, before, strict=True):
        assert torch.equal(cache[[0, 1, 2, 3, 4, 5]], old[[0, 5, 2, 0, 4, 5]])


def test_one_block_may_be_copied_to_many() -> None:
    cache = pool()
    copy_blocks([cache], torch.tensor([[0, 3], [0, 4]]))
    assert torch.equal(cache[3], cache[0])
    assert torch.equal(cache[4], cache[0])


@pytest.mark.parametrize("bits", [0x7FA5A5A5, 0x7FC00001, 1])
def test_a_copy_and_a_swap_keep_every_bit_even_of_a_signaling_nan(bits: int) -> None:
    source, destination = pool(), pool(4)
    source.view(torch.int32)[2] = bits
    copy_blocks([source], torch.tensor([[2, 4]]))
    swap_blocks([source], [destination], torch.tensor([[4, 1]]))
    assert (source.view(torch.int32)[4] == bits).all()
    assert (destination.view(torch.int32)[1] == bits).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.int8, torch.float8_e4m3fn])
def test_blocks_of_every_dtype_move(dtype: torch.dtype) -> None:
    cache = pool().to(dtype)
    copy_blocks([cache], torch.tensor([[1, 2]]))
    assert torch.equal(cache[1].view(torch.uint8), cache[2].view(torch.uint8))


def test_a_block_swapped_out_and_in_elsewhere_is_the_same() -> None:
    device_caches, host_caches = [pool(), pool()], [pool(2), pool(2)]
    before = [cache[4].clone() for cache in device_caches]
    swap_blocks(device_caches, host_caches, torch.tensor([[4, 1]]))
    swap_blocks(host_caches, device_caches, torch.tensor([[1, 0]]))
    for cache, old in zip(device_caches, before, strict=True):
        assert torch.equal(cache[0], old)


def test_views_of_a_pool_of_all_layers_are_copied_in_place() -> None:
    storage = torch.randn(6, 2, 2, 3, 2, 8)
    copy_blocks([storage[:, 1, 0]], torch.tensor([[0, 5]]))
    assert torch.equal(storage[5, 1, 0], storage[0, 1, 0])
    assert not torch.equal(storage[5, 0, 0], storage[0, 0, 0])


@pytest.mark.parametrize(
    ("pairs", "complaint"),
    [
        ([[0, 6]], r"pairs\[0, 1\] is block 6: that pool has blocks 0 to 5"),
        ([[1, 2], [-1, 3]], r"pairs\[1, 0\] is block -1"),
        ([[0, 3], [1, 3]], r"block 3 is the destination of 2 pairs"),
        ([[0, 1], [1, 2]], r"block 1 is source and destination at once"),
        ([0, 1], r"pairs has shape \[2\]: it must be \[n, 2\]"),
    ],
)
def test_pairs_that_leave_the_pool_or_whose_order_would_matter_fail(pairs: list, complaint: str) -> None:
    cache = pool()
    before = cache.clone()
    with pytest.raises(ValueError, match=complaint):
        copy_blocks([cache], torch.tensor(pairs))
    assert torch.equal(cache, before)


def test_swapped_caches_must_pair_up() -> None:
    with pytest.raises(ValueError, match="2 source caches, 1 destinations"):
        swap_blocks([pool(), pool()], [pool()], torch.tensor([[0, 0]]))
    with pytest.raises(ValueError, match=r"a destination cache has shape \[6, 3, 2, 8\]"):
        swap_blocks([torch.randn(6, 4, 2, 8)], [pool()], torch.tensor([[0, 0]]))
    with pytest.raises(ValueError, match="must be float32"):
        swap_blocks([pool()], [pool().half()], torch.tensor([[0, 0]]))
