import pytest
import torch

from engine.attention import copy_blocks, swap_blocks
from tests.engine.attention.cases import need

BACKENDS = ["torch", "triton"]


def pool(num_blocks: int = 6) -> torch.Tensor:
    return torch.randn(num_blocks, 3, 2, 8)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_copy_changes_its_destination_in_every_cache_and_nothing_else(backend: str) -> None:
    need(backend)
    caches = [pool(), pool()]
    before = [cache.clone() for cache in caches]
    copy_blocks(caches, torch.tensor([[0, 3], [5, 1]]), backend=backend)
    for cache, old in zip(caches, before, strict=True):
        assert torch.equal(cache[[0, 1, 2, 3, 4, 5]], old[[0, 5, 2, 0, 4, 5]])


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_block_may_be_copied_to_many(backend: str) -> None:
    need(backend)
    cache = pool()
    copy_blocks([cache], torch.tensor([[0, 3], [0, 4]]), backend=backend)
    assert torch.equal(cache[3], cache[0])
    assert torch.equal(cache[4], cache[0])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("bits", [0x7FA5A5A5, 0x7FC00001, 1])
def test_a_copy_and_a_swap_keep_every_bit_even_of_a_signaling_nan(bits: int, backend: str) -> None:
    need(backend)
    source, destination = pool(), pool(4)
    source.view(torch.int32)[2] = bits
    copy_blocks([source], torch.tensor([[2, 4]]), backend=backend)
    swap_blocks([source], [destination], torch.tensor([[4, 1]]), backend=backend)
    assert (source.view(torch.int32)[4] == bits).all()
    assert (destination.view(torch.int32)[1] == bits).all()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.int8, torch.float8_e4m3fn])
def test_blocks_of_every_dtype_move(dtype: torch.dtype, backend: str) -> None:
    need(backend)
    cache = pool().to(dtype)
    copy_blocks([cache], torch.tensor([[1, 2]]), backend=backend)
    assert torch.equal(cache[1].view(torch.uint8), cache[2].view(torch.uint8))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_block_swapped_out_and_in_elsewhere_is_the_same(backend: str) -> None:
    need(backend)
    device_caches, host_caches = [pool(), pool()], [pool(2), pool(2)]
    before = [cache[4].clone() for cache in device_caches]
    swap_blocks(device_caches, host_caches, torch.tensor([[4, 1]]), backend=backend)
    swap_blocks(host_caches, device_caches, torch.tensor([[1, 0]]), backend=backend)
    for cache, old in zip(device_caches, before, strict=True):
        assert torch.equal(cache[0], old)


@pytest.mark.parametrize("backend", BACKENDS)
def test_views_of_a_pool_of_all_layers_are_copied_in_place(backend: str) -> None:
    need(backend)
    storage = torch.randn(6, 2, 2, 3, 2, 8)
    copy_blocks([storage[:, 1, 0]], torch.tensor([[0, 5]]), backend=backend)
    assert torch.equal(storage[5, 1, 0], storage[0, 1, 0])
    assert not torch.equal(storage[5, 0, 0], storage[0, 0, 0])


@pytest.mark.parametrize("backend", BACKENDS)
def test_blocks_whose_heads_lie_apart_are_copied_too(backend: str) -> None:
    """[blocks, heads, block_size, dim] seen as [blocks, block_size, heads, dim]; some heads of it: no run."""
    need(backend)
    storage = torch.randn(4, 6, 5, 16)
    before = storage.clone()
    copy_blocks([storage.transpose(1, 2)[:, :, 1:4]], torch.tensor([[0, 3]]), backend=backend)
    assert torch.equal(storage[3, 1:4], before[0, 1:4])
    assert torch.equal(storage[3, [0, 4, 5]], before[3, [0, 4, 5]])


@pytest.mark.parametrize("shape", [(3, 1, 7), (2500, 2, 1), (1, 1, 1)])
def test_runs_of_any_length_and_caches_of_two_shapes_go_in_one_call(shape: tuple[int, ...]) -> None:
    need("triton")
    caches = [
        torch.randn(4, *shape),
        torch.randn(4, *shape),
        torch.randn(4, 8),
        torch.randn(4, *shape).half(),
    ]
    before = [cache.clone() for cache in caches]
    copy_blocks(caches, torch.tensor([[3, 1], [2, 0]]), backend="triton")
    for cache, old in zip(caches, before, strict=True):
        assert torch.equal(cache, old[[2, 3, 2, 3]])


def test_neighbouring_blocks_cross_in_one_transfer() -> None:
    need("triton")
    from engine.attention.triton_swap import by_runs, merged_runs

    pairs = [[4, 1], [5, 2], [6, 3], [2, 0], [3, 4]]
    assert list(merged_runs(pairs)) == [(4, 1, 3), (2, 0, 1), (3, 4, 1)]
    source, destination = pool(8), torch.zeros(5, 3, 2, 8)
    by_runs([source], [destination], torch.tensor(pairs))
    assert torch.equal(destination, source[[2, 4, 5, 6, 3]])


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
