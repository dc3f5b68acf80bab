"""Wrong input gives one line with the numbers and the remedy, whatever the backend."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from engine.attention import contiguous_attention, paged_attention
from tests.engine.attention.cases import POISON, make_case


def int32(*numbers: int) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.int32)


WRONG_INPUT: dict[str, tuple[dict[str, Any], str]] = {
    "query width": ({"query": torch.randn(2, 4, 8)}, r"query has shape \[2, 4, 8\]: .*num_heads, 16\]"),
    "query rows": ({"query": torch.randn(3, 4, 16)}, "3 rows for 2 sequences"),
    "query heads": ({"query": torch.randn(2, 5, 16)}, "5 heads, the cache 2: the first must be a multiple"),
    "query dtype": ({"query": torch.ones(2, 4, 16, dtype=torch.int32)}, "query is torch.int32"),
    "values shape": ({"values": torch.randn(7, 4, 2, 16)}, r"value cache has shape \[7, 4, 2, 16\]"),
    "values dtype": ({"values": torch.randn(13, 4, 2, 16).half()}, "value cache is torch.float16: .*float32"),
    "table dtype": ({"table": torch.zeros(2, 4, dtype=torch.int64)}, "block_tables is torch.int64: .* int32"),
    "lens shape": ({"seq_lens": int32(1, 2, 3)}, r"seq_lens has shape \[3\]: it must be \[2\]"),
    "too long": ({"seq_lens": int32(6, 99)}, r"seq_lens\[1\] is 99: there is room for 0 to 20 tokens"),
    "negative": ({"seq_lens": int32(-1, 9)}, r"seq_lens\[0\] is -1"),
    "poisoned": ({"seq_lens": int32(6, 13)}, rf"block_tables\[1, 3\] is {POISON}: .* blocks 0 to 12"),
    "head_dim apart": (
        {"keys": torch.randn(11, 4, 16, 2).transpose(2, 3), "values": torch.randn(11, 4, 2, 16)},
        "stride 2 along head_dim: it must be 1",
    ),
    "window": ({"options": {"window": 0}}, "window 0: must be at least 1 token"),
    "sinks": ({"options": {"sinks": -1}}, "sinks -1"),
    "softcap": ({"options": {"softcap": 0.0}}, "softcap 0.0: must be greater than 0, or None"),
    "a softcap that float32 has not": (
        {"options": {"softcap": 1e39}},
        r"softcap 1e\+39: float32 has 1.17549e-38",
    ),
    "one that it takes for 0": ({"options": {"softcap": 1e-46}}, "softcap 1e-46: float32 has"),
    "scale": ({"options": {"scale": float("nan")}}, "scale nan: must be a finite number"),
    "slopes": ({"options": {"alibi_slopes": torch.ones(3)}}, r"alibi_slopes is \[3\]: must be \[4\]"),
    "k_scale": ({"options": {"k_scale": torch.ones(3)}}, "k_scale has 3 numbers: give 1, or 2"),
    "out": ({"options": {"out": torch.ones(2, 4, 8)}}, r"out has shape \[2, 4, 8\]"),
    "out dtype": (
        {"options": {"out": torch.ones(2, 4, 16).half()}},
        "out is torch.float16",
    ),
}


@pytest.mark.parametrize(("changes", "complaint"), WRONG_INPUT.values(), ids=WRONG_INPUT)
def test_wrong_input_is_named_with_its_numbers(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        replace(make_case([6, 9]), **changes).decode("cpu")


@pytest.mark.parametrize(
    ("query_lens", "complaint"),
    [
        ([3, 2], r"query_start_loc \[0, 3, 5\]: must rise from 0 to 6"),
        ([4, -1, 3], r"query_start_loc has shape \[4\]: it must be \[3\]"),
        ([8, -2], "must rise from 0 to 6"),
    ],
)
def test_a_query_start_loc_that_does_not_fit_is_an_error(query_lens: list[int], complaint: str) -> None:
    case = make_case([6, 9])
    with pytest.raises(ValueError, match=complaint):
        replace(case, query_lens=query_lens).prefill("cpu")


def test_more_query_tokens_than_the_sequence_has_are_an_error() -> None:
    case = replace(make_case([6, 9], query_lens=[2, 9]), seq_lens=int32(6, 8))
    with pytest.raises(ValueError, match="sequence 1 has 9 query tokens but seq_lens 8"):
        case.prefill("cpu")


def test_an_arena_that_ends_too_early_is_an_error() -> None:
    arena, query = torch.randn(10, 2, 16), torch.randn(1, 4, 16)
    with pytest.raises(ValueError, match="sequence 0 takes slots 8 to 10: the arena has slots 0 to 9"):
        contiguous_attention(query, arena, arena, torch.tensor([8]), int32(3))


def test_an_unknown_backend_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match='backend "cuda": must be one of auto, torch, cpu, triton'):
        make_case([3]).decode("cuda")


@pytest.mark.parametrize("backend", ["cpu", "triton"])
def test_double_precision_names_the_backend_that_has_it(backend: str) -> None:
    with pytest.raises(ValueError, match='use backend="torch"'):
        make_case([3], dtype=torch.float64).decode(backend)


def test_a_head_that_triton_cannot_take_names_the_backend_that_can() -> None:
    pytest.importorskip("triton")
    with pytest.raises(ValueError, match='head_dim up to 256, not 300: use backend="torch"'):
        make_case([3], head_dim=300).decode("triton")


def test_tensors_on_two_devices_are_an_error() -> None:
    case = make_case([3])
    with pytest.raises(ValueError, match="query on meta: move them to one device"):
        paged_attention(case.query.to("meta"), case.keys, case.values, case.table, case.seq_lens)
