"""A call that is prepared once gives in every layer what the checked function gives."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import engine.attend
import engine.attention.prepared
from engine.attend import Reading
from engine.attention import paged_attention, paged_prefill
from engine.attention.features import Options
from engine.attention.kv import PagedKV, Stored
from engine.attention.prepared import prepare_decode, prepare_prefill
from engine.flat import flatten
from engine.model import LlamaModel
from sim.events import Kind
from sim.models import get_model
from tests.engine.test_attend import CPU, chunk_of, event, small_pool

TABLES = torch.tensor([[3, 0, 5], [1, 9, 9], [2, 4, 9]], dtype=torch.int32)
LENGTHS = torch.tensor([11, 0, 7], dtype=torch.int32)


def layers(seed: int, num_tokens: int) -> tuple[Tensor, Tensor, Tensor]:
    """Queries of two layers, and their caches as views of one storage whose blocks lie apart."""
    random = torch.Generator().manual_seed(seed)
    storage = torch.randn(6, 2, 2, 4, 2, 20, generator=random)
    return torch.randn(2, num_tokens, 6, 20, generator=random), storage[:, :, 0], storage[:, :, 1]


@pytest.mark.parametrize("backend", ["torch", "cpu"])
@pytest.mark.parametrize("options", [{}, {"window": 5, "sinks": 1, "softcap": 8.0}], ids=["plain", "window"])
def test_a_prepared_decode_is_to_the_bit_the_checked_one_in_every_layer(
    backend: str, options: dict[str, Any]
) -> None:
    query, keys, values = layers(1, 3)
    kv = PagedKV(Stored(keys[:, 0], values[:, 0]), TABLES)
    prepared = prepare_decode(query[0], kv, LENGTHS, Options(**options), backend)
    for layer in (0, 1, 0):
        caches, out = (keys[:, layer], values[:, layer]), torch.full_like(query[layer], torch.nan)
        prepared(query[layer], Stored(*caches), out)
        checked = paged_attention(query[layer], *caches, TABLES, LENGTHS, backend=backend, **options)
        assert torch.equal(out, checked)
    assert not torch.equal(keys[:, 0], keys[:, 1])


@pytest.mark.parametrize("backend", ["torch", "cpu"])
def test_a_prepared_prefill_is_to_the_bit_the_checked_one_in_every_layer(backend: str) -> None:
    query, keys, values = layers(2, 9)
    starts = torch.tensor([0, 4, 4, 9], dtype=torch.int32)
    kv = PagedKV(Stored(keys[:, 0], values[:, 0]), TABLES)
    prepared = prepare_prefill(query[0], kv, LENGTHS, starts, Options(), backend)
    for layer in (0, 1, 0):
        caches, out = (keys[:, layer], values[:, layer]), torch.full_like(query[layer], torch.nan)
        prepared(query[layer], Stored(*caches), out)
        checked = paged_prefill(query[layer], *caches, TABLES, LENGTHS, starts, backend=backend)
        assert torch.equal(out, checked)


def test_a_prepared_call_refuses_tensors_of_another_form() -> None:
    query, keys, values = layers(3, 3)
    kv = PagedKV(Stored(keys[:, 0], values[:, 0]), TABLES)
    prepared = prepare_decode(query[0], kv, LENGTHS, Options(), "cpu")
    dense = keys[:, 0].contiguous()
    for wrong in (
        (query[0][:2], Stored(keys[:, 0], values[:, 0]), query[0][:2].clone()),
        (query[0], Stored(dense, dense), query[0].clone()),  # other strides
        (query[0], Stored(keys[:, 0], values[:, 0]), query[0].half()),
    ):
        with pytest.raises(ValueError, match="prepare another"):
            prepared(*wrong)


def test_a_forward_pass_looks_at_tables_and_slots_once_not_once_a_layer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counts: dict[str, int] = {}

    def counted(module: Any, name: str) -> None:
        original: Callable[..., Any] = getattr(module, name)

        def count(*arguments: Any) -> Any:
            counts[name] = counts.get(name, 0) + 1
            return original(*arguments)

        monkeypatch.setattr(module, name, count)

    counted(engine.attention.prepared, "check_decode")
    counted(engine.attention.prepared, "check_prefill")
    counted(engine.attend, "check_write")
    model = LlamaModel(get_model("tiny"), 0, torch.float32, CPU)
    pool = small_pool(model)
    pool.alloc("a", event(Kind.ALLOC, "a", blocks=[5, 0]))
    pool.alloc("b", event(Kind.ALLOC, "b", blocks=[2]))
    pool.flush()
    chunks = [chunk_of("a", 9, 1, is_prefill=False), chunk_of("b", 0, 4)]
    flat = flatten(chunks, dict.fromkeys("ab", torch.arange(12).numpy()), pool.rows, CPU)
    model.forward(flat.token_ids, flat.positions, pool.bind(flat, Reading("cpu")), flat.emitting)
    assert model.spec.num_layers == 2
    assert counts == {"check_decode": 1, "check_prefill": 1, "check_write": 1}
