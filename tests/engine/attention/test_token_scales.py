"""8-bit caches in which each vector has a scale of its own: written, read, copied and swapped."""

from typing import Any

import pytest
import torch
from torch import Tensor

from engine.attention import contiguous_attention, contiguous_prefill, copy_blocks, swap_blocks, write_kv
from engine.attention.copy import BITS
from tests.engine.attention.cases import BACKENDS, assert_near, make_case, need

TOLERANCE = {torch.float16: 4e-3, torch.bfloat16: 3e-2}  # scores near 60 leave fewer bits than those near 1
CODES = (torch.int8, torch.float8_e4m3fn, torch.float8_e5m2)
FEATURES: list[dict[str, Any]] = [
    {"block_size": 7, "head_dim": 80, "num_heads": 10},
    {"window": 9, "sinks": 6, "softcap": 3.0},
    {"drops": True, "k_scale": 0.5, "v_scale": torch.tensor([2.0, 0.1])},
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("cache_dtype", CODES, ids=str)
@pytest.mark.parametrize("options", FEATURES, ids=lambda options: " ".join(options))
def test_codes_times_scales_are_attended_as_in_the_reference(
    backend: str, cache_dtype: torch.dtype, options: dict[str, Any]
) -> None:
    """Scales of values from 1e-6 to 1e5 beside one another: none may swallow the others or overflow."""
    case = make_case([2, 70], query_lens=[2, 8], cache_dtype=cache_dtype, token_scales=True, **options)
    for result, exact in (
        (case.decode(backend), case.exact().decode("torch")),
        (case.prefill(backend), case.exact().prefill("torch")),
        (case.short(backend), case.exact().prefill("torch")),
    ):
        assert_relative(result, exact, 2e-5)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("cache_dtype", CODES[:2], ids=str)
def test_half_precision_queries_read_codes_with_the_error_of_their_own_rounding(
    backend: str, dtype: torch.dtype, cache_dtype: torch.dtype
) -> None:
    case = make_case([40, 9], dtype=dtype, cache_dtype=cache_dtype, query_lens=[5, 2], token_scales=True)
    case.options["value_scales"].mul_(0).add_(torch.rand(2)).nan_to_num_(0.0)
    assert_near(case.decode(backend), case.exact().decode("torch"), TOLERANCE[dtype])
    assert_near(case.prefill(backend), case.exact().prefill("torch"), TOLERANCE[dtype])


@pytest.mark.parametrize("backend", BACKENDS)
def test_several_chunks_with_scales_of_different_sizes_are_put_together(backend: str) -> None:
    case = make_case(
        [700], query_lens=[4], num_heads=2, num_kv_heads=1, block_size=32,
        cache_dtype=torch.int8, token_scales=True,
    )  # fmt: skip
    assert_relative(case.decode(backend), case.exact().decode("torch"), 2e-5)
    assert_relative(case.short(backend), case.exact().prefill("torch"), 2e-5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_arena_of_codes_gives_what_pages_of_codes_give(backend: str) -> None:
    need(backend)
    case = make_case([5, 21], query_lens=[5, 7], block_size=32, cache_dtype=torch.int8, token_scales=True)
    flat: dict[str, Any] = {name: scales.flatten(0, 1) for name, scales in case.options.items()}
    starts = case.table[:, 0].to(torch.int64) * 32
    place = (case.keys.flatten(0, 1), case.values.flatten(0, 1), starts, case.seq_lens)
    decoded = contiguous_attention(case.query, *place, **flat, backend=backend)
    assert_relative(decoded, case.exact().decode("torch"), 2e-5)
    loc = case.query_start_loc
    for most in (None, 7):
        result = contiguous_prefill(
            case.prefill_query, *place, loc, **flat, backend=backend, max_query_len=most
        )
        assert_relative(result, case.exact().prefill("torch"), 2e-5)


@pytest.mark.filterwarnings("ignore:invalid value encountered in divide")  # numpy, on infinity over infinity
@pytest.mark.parametrize("cache_dtype", CODES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_the_kernel_writes_the_codes_and_scales_that_torch_writes_to_the_bit(
    dtype: torch.dtype, cache_dtype: torch.dtype
) -> None:
    """Strided sources, padding, vectors of zeros, of huge and of tiny numbers, with NaN and infinity."""
    need("triton")
    torch.manual_seed(0)
    qkv = torch.randn(5, 9, 40) * 10.0 ** torch.randint(-6, 5, (5, 9, 1))
    qkv *= 10.0 ** torch.randint(-6, 1, (5, 9, 40))  # down to codes that are subnormal, and below
    qkv[0, 3], qkv[0, 4, 7], qkv[2, 5, 1], qkv[2, 4] = 0.0, torch.nan, -torch.inf, 1e-7
    qkv, slots = qkv.to(dtype), torch.tensor([3, -1, 27, 14, 0])
    written = {backend: write(qkv, cache_dtype, slots, backend) for backend in ("torch", "triton")}
    for ours, theirs in zip(written["triton"], written["torch"], strict=True):
        bits = BITS[ours.element_size()]
        assert ((ours.view(bits) == theirs.view(bits)) | (ours.isnan() & theirs.isnan())).all()
    _, key_scales = written["torch"]
    assert key_scales[0, 1, 0, 3].tolist()[0] == 1.0  # zeros
    assert key_scales[0, 1, 0, 3, 1].isnan()
    assert not written["torch"][0][0, 1, 0, 3].isnan().any()  # no code is


def write(qkv: Tensor, cache_dtype: torch.dtype, slots: Tensor, backend: str) -> tuple[Tensor, Tensor]:
    codes = torch.zeros(4, 2, 2, 7, 3, 40).to(cache_dtype)  # [blocks, layers, 2, block_size, heads, dim]
    scales = torch.zeros(4, 2, 2, 7, 3)
    views = {"key_scales": scales[:, 1, 0], "value_scales": scales[:, 1, 1]}
    write_kv(qkv[:, 3:6], qkv[:, 6:], codes[:, 1, 0], codes[:, 1, 1], slots, **views, backend=backend)
    return codes.float(), scales


@pytest.mark.parametrize("backend", ["torch", "triton"])
def test_codes_and_scales_are_copied_and_swapped_together(backend: str) -> None:
    need(backend)
    codes, scales = torch.randint(-127, 128, (6, 3, 2, 8), dtype=torch.int8), torch.rand(6, 3, 2)
    before = codes.clone(), scales.clone()
    copy_blocks([codes, scales], torch.tensor([[0, 3], [5, 1]]), backend=backend)
    host = torch.zeros(2, 3, 2, 8, dtype=torch.int8), torch.zeros(2, 3, 2)
    swap_blocks([codes, scales], host, torch.tensor([[3, 1]]), backend=backend)
    for now, old, there in zip((codes, scales), before, host, strict=True):
        assert torch.equal(now, old[[0, 5, 2, 0, 4, 5]])
        assert torch.equal(there[1], old[0])


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "one alone": ({"value_scales": None}, "key_scales or value_scales alone"),
    "shape": ({"key_scales": torch.ones(7, 4)}, r"key_scales has shape \[7, 4\]: it must be \[7, 4, 2\]"),
    "dtype": ({"key_scales": torch.ones(7, 4, 2).double()}, "key_scales is torch.float64"),
    "layout": ({"key_scales": torch.ones(7, 4, 4)[..., :2]}, "lay them out alike"),
}


@pytest.mark.parametrize(("changes", "complaint"), WRONG.values(), ids=WRONG)
def test_scales_that_do_not_fit_are_an_error(changes: dict[str, Any], complaint: str) -> None:
    case = make_case([6], cache_dtype=torch.int8, token_scales=True)
    assert case.keys.shape[:-1] == (7, 4, 2)
    case.options.update(changes)
    with pytest.raises(ValueError, match=complaint):
        case.decode("cpu")


def test_scales_beside_numbers_that_are_no_codes_are_an_error() -> None:
    case = make_case([6])
    scales = torch.ones(case.keys.shape[:-1])
    case.options.update(key_scales=scales, value_scales=scales)
    with pytest.raises(ValueError, match=r"the cache is torch\.float32, not quantized"):
        case.decode("cpu")


def assert_relative(actual: Tensor, expected: Tensor, tolerance: float) -> None:
    """Against the largest number of each row."""
    sizes = expected.abs().amax(dim=-1, keepdim=True).clamp(min=1e-30)
    assert ((actual.double() - expected.double()).abs() <= tolerance * sizes).all()
