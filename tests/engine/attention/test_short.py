"""A few query tokens for each sequence, packed into one tile of the decode kernel: drafts, short chunks.

All cases hide NaN in every slot that nobody may see and 2**30 in every table entry that nobody needs.
"""

from typing import Any

import pytest
import torch

from engine.attention import contiguous_prefill
from tests.engine.attention.cases import BACKENDS, Case, assert_near, make_case, need

SHAPES: dict[str, dict[str, Any]] = {
    "blocks of 3": {"block_size": 3},
    "a slot a block, dim 8": {"block_size": 1, "head_dim": 8},
    "dim 80, group 5": {"head_dim": 80, "num_heads": 10, "block_size": 16},
    "two row tiles of 24 heads": {"num_heads": 24, "num_kv_heads": 1, "block_size": 48},
    "one head": {"num_heads": 1, "num_kv_heads": 1, "block_size": 512},
    "window of one": {"window": 1},
    "window and sinks": {"window": 9, "sinks": 6},
    "alibi and softcap": {"alibi_slopes": torch.tensor([0.5, 0.25, 0.125, 2.0]), "softcap": 1.5},
    "dropped tokens": {"drops": True},
    "dropped tokens in a window": {"drops": True, "window": 20, "sinks": 2},
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_few_queries_equal_the_reference_on_every_shape(backend: str, shape: dict[str, Any]) -> None:
    case = make_case([8, 3, 70, 0, 41], query_lens=[8, 2, 7, 0, 1], **shape)
    assert_near(case.short(backend), case.exact().prefill("torch"))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("options", [{}, {"window": 300, "sinks": 3}, {"drops": True}], ids=str)
def test_few_queries_over_several_chunks_are_put_together_again(
    backend: str, options: dict[str, Any]
) -> None:
    """A chunk may hold keys that only the later queries see."""
    case = make_case(
        [514, 600, 4], query_lens=[8, 3, 4], num_heads=2, num_kv_heads=1, block_size=32, **options
    )
    assert_near(case.short(backend), case.exact().prefill("torch"))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_few_queries_lose_only_what_their_own_rounding_loses(backend: str, dtype: torch.dtype) -> None:
    case = make_case([9, 40], dtype=dtype, query_lens=[2, 5])
    assert_near(case.short(backend), case.exact().prefill("torch"))


@pytest.mark.parametrize("backend", BACKENDS)
def test_few_queries_in_an_arena_equal_those_in_pages(backend: str) -> None:
    need(backend)
    case = make_case([0, 5, 21], query_lens=[0, 5, 7], block_size=32)
    starts = case.table[:, 0].clamp(0, len(case.keys) - 1).to(torch.int64) * 32
    arenas = case.keys.flatten(0, 1), case.values.flatten(0, 1)
    lens, loc = case.seq_lens, case.query_start_loc
    result = contiguous_prefill(
        case.prefill_query, *arenas, starts, lens, loc, backend=backend, max_query_len=7
    )
    assert_near(result, case.exact().prefill("torch"))


@pytest.mark.parametrize("backend", BACKENDS)
def test_queries_are_the_same_to_the_bit_whoever_else_has_more_or_longer_ones(backend: str) -> None:
    def three() -> Case:
        return make_case([5, 600, 9], query_lens=[1, 3, 8], num_heads=2, num_kv_heads=1, block_size=16)

    together, alone = three().short(backend), three()
    alone = Case(
        alone.keys, alone.values, alone.table[1:2, :38], alone.seq_lens[1:2], alone.query[1:2], [3],
        alone.prefill_query[1:4],
    )  # fmt: skip
    assert torch.equal(alone.short(backend), together[1:4])


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_last_query_of_a_few_sees_what_a_decode_sees(backend: str) -> None:
    case = make_case([300, 33], query_lens=[8, 2], num_heads=2, num_kv_heads=1, block_size=16)
    last = case.short(backend)[case.query_start_loc[1:].long() - 1]
    case.query.copy_(case.prefill_query[case.query_start_loc[1:].long() - 1])
    assert_near(last, case.decode(backend))


def test_a_promise_of_fewer_query_tokens_than_there_are_is_an_error() -> None:
    case = make_case([9, 40], query_lens=[2, 9])
    with pytest.raises(ValueError, match="sequence 1 has 9 query tokens, max_query_len is 8"):
        case.short("cpu")


def test_few_queries_go_through_the_decode_kernel_and_more_through_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    need("triton")
    from engine.attention import triton_backend

    launched: list[str] = []

    class Noted:
        def __init__(self, name: str) -> None:
            self.name, self.kernel = name, getattr(triton_backend, name)

        def __getitem__(self, grid: tuple[int, ...]) -> Any:
            launched.append(self.name)
            return self.kernel[grid]

    for name in ("decode_kernel", "prefill_kernel"):
        monkeypatch.setattr(triton_backend, name, Noted(name))
    case = make_case([9], query_lens=[8])
    for most in (8, 9, None):
        case.prefill("triton", max_query_len=most)
    assert launched == ["decode_kernel", "prefill_kernel", "prefill_kernel"]
