"""Ragged batches as hostile as the contract allows: free slots hold NaN, free table entries 2**30."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from bench.gpu.batches import BACKEND, random
from engine.attention import contiguous_attention, contiguous_prefill, paged_attention, paged_prefill
from engine.attention.backends import MAX_SHORT
from engine.attention.copy import BITS

POISON = 2**30
NUM_KV_HEADS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What the batch is of, and what its scores go through."""

    dtype: torch.dtype = torch.bfloat16
    cache_dtype: torch.dtype | None = None
    head_dim: int = 128
    group: int = 4
    block_size: int = 16
    is_contiguous: bool = False
    token_scales: bool = False
    drops: bool = False
    alibi: bool = False
    options: dict[str, Any] = field(default_factory=dict[str, Any])  # window, sinks, softcap, scale

    @property
    def stored(self) -> torch.dtype:
        return self.cache_dtype or self.dtype


@dataclass(frozen=True, slots=True)
class Question:
    """One call, to be answered by a kernel and in float64 by the reference."""

    function: Callable[..., Tensor]
    query: Tensor
    caches: list[Tensor]
    place: tuple[Tensor, ...]
    options: dict[str, Any]
    hint: dict[str, Any]

    def answer(self) -> Tensor:
        return self.function(
            self.query, *self.caches, *self.place, **self.options, **self.hint, backend=BACKEND
        )

    def exact(self) -> Tensor:
        caches = [cache if cache.dtype.itemsize == 1 else cache.double() for cache in self.caches]
        return self.function(self.query.double(), *caches, *self.place, **self.options, backend="torch")


def questions(case: Case, lens: list[int], queries: list[int], device: torch.device) -> Iterator[Question]:
    """Decode, prefill, and prefill by the kernel for few queries, of one batch."""
    torch.manual_seed(0)
    caches, place, options = batch(case, lens, device)
    attend, prefill = (
        (contiguous_attention, contiguous_prefill) if case.is_contiguous else (paged_attention, paged_prefill)
    )

    def query(num_rows: int) -> Tensor:
        return random((num_rows, NUM_KV_HEADS * case.group, case.head_dim), case.dtype, device)

    yield Question(attend, query(len(lens)), caches, place, options, {})
    few = [min(count, MAX_SHORT) for count in queries]
    for counts, hint in ((queries, {}), (few, {"max_query_len": MAX_SHORT})):
        starts = torch.tensor([0, *accumulate(counts)], dtype=torch.int32, device=device)
        yield Question(prefill, query(sum(counts)), caches, (*place, starts), options, hint)


def batch(
    case: Case, lens: list[int], device: torch.device
) -> tuple[list[Tensor], tuple[Tensor, ...], dict[str, Any]]:
    """Caches, where they are read, and options. An arena is a pool whose blocks hold a sequence each."""
    longest = max(lens)
    block_size = longest + 5 if case.is_contiguous else case.block_size
    columns = 1 if case.is_contiguous else -(-longest // block_size) + 1
    order = torch.randperm(columns * len(lens), device=device).view(len(lens), columns)
    size = (order.numel(), block_size, NUM_KV_HEADS, case.head_dim)
    live = torch.zeros(size[:2], dtype=torch.bool, device=device)
    for row, length in enumerate(lens):
        tokens = torch.arange(length, device=device)
        live[order[row, tokens // block_size], tokens % block_size] = True
    caches = [poisoned(random(size, case.stored, device), ~live) for _ in range(2)]
    options = features(case, lens, live, device)
    seq_lens = torch.tensor(lens, dtype=torch.int32, device=device)
    if case.is_contiguous:
        options |= {name: options[name].flatten(0, 1) for name in SCALES if name in options}
        options["max_seq_len"] = longest
        return [cache.flatten(0, 1) for cache in caches], (order[:, 0] * block_size, seq_lens), options
    is_used = torch.arange(columns, device=device) < -(-seq_lens // block_size)[:, None]
    return caches, (order.int().where(is_used, POISON), seq_lens), options


SCALES = ("key_scales", "value_scales")


def poisoned(cache: Tensor, where: Tensor) -> Tensor:
    """With NaN there; int8 has none."""
    if cache.dtype != torch.int8:
        nan = torch.full((1,), float("nan"), device=cache.device).to(cache.dtype)
        bits = BITS[cache.element_size()]
        cache.view(bits)[where] = nan.view(bits)
    return cache


def features(case: Case, lens: list[int], live: Tensor, device: torch.device) -> dict[str, Any]:
    """As keyword arguments of the attention functions."""
    options = dict(case.options)
    if case.stored == torch.int8 and not case.token_scales:
        options |= {"k_scale": 0.02, "v_scale": 0.03}
    if case.token_scales:
        free = torch.where(live[..., None], 0.0, float("nan"))
        for name in SCALES:
            options[name] = torch.rand((*live.shape, NUM_KV_HEADS), device=device) * 0.03 + free
    if case.drops:
        tokens = torch.arange(max(lens), device=device)
        options["seen_until"] = (tokens + 40 * (1 + tokens % 3)).int().repeat(len(lens), 1)
    if case.alibi:
        options["alibi_slopes"] = torch.rand(NUM_KV_HEADS * case.group, device=device)
    return options
