"""Greedy tokens do not depend on where keys and values lie, who shares the batch, or who was preempted."""

from typing import Any

import pytest

from engine import measure
from tests.engine.running import CROWD, PRESSED, ROOMY, crowd, tiny
from tests.making import requests

CONTIGUOUS = [
    {"allocator": "max", "pool_tokens": 450},
    {"allocator": "pow2", "pool_tokens": 300},
    {"allocator": "oracle", "pool_tokens": 200},
    {"allocator": "oracle", "pool_tokens": 200, "placement": "worst-fit"},
]
BATCHINGS = [
    {"chunked_prefill": True, "max_batch_tokens": 24},
    {"batching": "static", "max_seqs": 1},
    {"batching": "static", "max_seqs": 5},
    {"step_rule": "prefill-first"},
]


def test_every_request_emits_its_true_output_length() -> None:
    lengths = {id: len(emitted) for id, emitted in crowd(**ROOMY).tokens.items()}
    assert lengths == {request.id: request.output for request in CROWD.requests}


@pytest.mark.parametrize("dials", CONTIGUOUS, ids=lambda dials: "-".join(map(str, dials.values())))
def test_contiguous_reservation_emits_the_tokens_of_paging(dials: dict[str, Any]) -> None:
    assert crowd(**dials).tokens == crowd(**ROOMY).tokens


@pytest.mark.parametrize("block_size", [1, 3, 16, 64])
def test_block_size_does_not_change_a_token(block_size: int) -> None:
    assert crowd(pool_tokens=4096, block_size=block_size).tokens == crowd(**ROOMY).tokens


@pytest.mark.parametrize("dials", BATCHINGS, ids=lambda dials: "-".join(map(str, dials.values())))
def test_batching_and_chunks_do_not_change_a_token(dials: dict[str, Any]) -> None:
    assert crowd(**ROOMY, **dials).tokens == crowd(**ROOMY).tokens


@pytest.mark.parametrize(
    "dials",
    [
        {"preempt": "recompute"},
        {"preempt": "swap"},
        {"preempt": "swap", "swap_blocks": 5},  # some victims fit the host, others are recomputed
        {"preempt": "swap", "chunked_prefill": True, "max_batch_tokens": 24},
    ],
    ids=lambda dials: "-".join(map(str, dials.values())),
)
def test_preempted_requests_go_on_as_if_nothing_had_happened(dials: dict[str, Any]) -> None:
    run = crowd(**PRESSED, **dials)
    assert run.num_preemptions > 5
    assert (run.traffic.swapped_out_blocks > 0) == (dials["preempt"] == "swap")
    assert run.tokens == crowd(**ROOMY).tokens


@pytest.mark.parametrize("dials", [PRESSED, CONTIGUOUS[2]], ids=["paged", "contiguous"])
def test_the_reference_backend_emits_the_tokens_of_the_compiled_one(dials: dict[str, Any]) -> None:
    assert crowd("torch", **dials).tokens == crowd(**ROOMY).tokens


@pytest.mark.parametrize(
    "dials", [{"pool_tokens": 24, "block_size": 4}, CONTIGUOUS[2]], ids=["paged", "contiguous"]
)
def test_triton_kernels_emit_the_tokens_of_the_compiled_backend(dials: dict[str, Any]) -> None:
    """A few requests only: without a GPU these kernels run in an interpreter. The paged pool preempts."""
    few = requests((9, 5), (5, 6), (6, 4, 1.0))
    measured = {
        backend: measure(few, tiny(**dials), backend=backend, clock="modelled", device=device)
        for backend, device in (("triton", "auto"), ("cpu", "cpu"))
    }
    assert measured["triton"].tokens == measured["cpu"].tokens
    assert (measured["triton"].num_preemptions > 0) == ("allocator" not in dials)


@pytest.mark.parametrize("kv_dtype", ["bf16", "fp16"])
def test_a_narrow_cache_emits_the_same_tokens_paged_contiguous_and_preempted(kv_dtype: str) -> None:
    roomy = crowd(**ROOMY, kv_dtype=kv_dtype)
    assert crowd(**CONTIGUOUS[0], kv_dtype=kv_dtype).tokens == roomy.tokens
    assert crowd(**PRESSED, kv_dtype=kv_dtype).tokens == roomy.tokens
    assert crowd(**PRESSED, kv_dtype=kv_dtype, preempt="swap").tokens == roomy.tokens
