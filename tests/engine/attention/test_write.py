import pytest
import torch

from engine.attention import write_kv
from engine.attention.copy import BITS
from tests.engine.attention.cases import POISON, need

NAN = float("nan")
FLOATS = (torch.float32, torch.float16, torch.bfloat16)
CODES = (torch.int8, torch.float8_e4m3fn, torch.float8_e5m2)
# ties of the roundings, the smallest numbers, the largest that a code holds and the first that it does not
HARD = [
    0.0,
    -0.0,
    1e-9,
    2**-10,
    3 * 2**-10,
    1.5 * 2**-9,
    2**-17,
    1.5 * 2**-16,
    3 * 2**-17,
    1 + 2**-9,
    1 + 3 * 2**-9,
]
HARD += [0.5, 1.5, 2.5, -2.5, 447.9, 448, 464, 465, 1e6, -1e6, 57344, 60000, float("inf"), float("-inf"), NAN]


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


def bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.view(BITS[tensor.element_size()])


@pytest.mark.filterwarnings("ignore:overflow encountered in cast")  # numpy, on numbers that become infinite
@pytest.mark.parametrize("cache_dtype", [*FLOATS, *CODES])
@pytest.mark.parametrize("dtype", FLOATS)
def test_the_kernel_writes_what_torch_writes_to_the_bit(dtype: torch.dtype, cache_dtype: torch.dtype) -> None:
    """Rounding, saturation, NaN and its payload, scales a head; strided sources; padding between tokens."""
    need("triton")
    torch.manual_seed(0)
    qkv = torch.randn(5, 9, 40) * 10.0 ** torch.randint(-9, 8, (5, 9, 40))
    qkv[0, 3].view(-1)[: len(HARD)] = torch.tensor(HARD)
    if cache_dtype == torch.int8:
        qkv = qkv.nan_to_num(1.0)  # no code for it
    qkv = qkv.to(dtype)
    scales = {"k_scale": torch.tensor([1.0, 0.7, 3.0]), "v_scale": 0.3} if cache_dtype in CODES else {}
    written = []
    for backend in ("torch", "triton"):
        pool = torch.zeros(4, 2, 2, 7, 3, 40).to(cache_dtype)
        slots = torch.tensor([3, -1, 27, 14, 0])
        write_kv(qkv[:, 3:6], qkv[:, 6:], pool[:, 1, 0], pool[:, 1, 1], slots, **scales, backend=backend)
        written.append(pool)
    is_same = bits(written[0]) == bits(written[1])
    if dtype != cache_dtype:  # which NaN becomes of a NaN is the processor's choice; a copy keeps it
        is_same |= written[0].isnan() & written[1].isnan()
    assert is_same.all()
    assert bits(written[0]).any()


@pytest.mark.parametrize(("num_heads", "head_dim"), [(1, 32), (8, 256), (3, 96), (1, 1)])
def test_the_kernel_takes_tokens_of_any_width_in_an_arena(num_heads: int, head_dim: int) -> None:
    need("triton")
    key, value = torch.randn(2, 3, num_heads, head_dim)
    arenas = torch.zeros(2, 2, 9, num_heads, head_dim)
    for (keys, values), backend in zip(arenas, ("torch", "triton"), strict=True):
        write_kv(key, value, keys, values, torch.tensor([8, 0, 4]), backend=backend)
    assert torch.equal(arenas[0], arenas[1])


def test_the_kernel_reaches_slots_past_four_gibibytes() -> None:
    """32-bit arithmetic would wrap the offset of block 70000 around to a slot near the beginning."""
    need("triton")
    memory = torch.empty(2**32 + 2**23, dtype=torch.int8)  # never touched, so it takes no memory
    cache = memory.as_strided((70001, 1, 1, 16), (61440, 16, 16, 1))
    cache[605032704 // 61440].fill_(0)
    new = torch.full((1, 1, 16), 9.0)
    write_kv(new, new, cache, cache, torch.tensor([70000]), backend="triton")
    assert (cache[70000] == 9).all()
