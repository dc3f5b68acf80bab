"""Random batches for the attention tests, as hostile as the contract allows.

Every slot that no query may see holds NaN, and every block-table entry that need not be read is 2**30.
"""

from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

import pytest
import torch
from torch import Tensor

from engine import attention

BACKENDS = ["torch", "cpu", "triton"]
POISON = 2**30
TOLERANCE = {torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 2e-2}


@dataclass(frozen=True)
class Case:
    """One batch: decode reads `query`, prefill `prefill_query`; `seq_lens` are the same for both."""

    keys: Tensor
    values: Tensor
    table: Tensor
    seq_lens: Tensor
    query: Tensor
    query_lens: list[int]
    prefill_query: Tensor
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def query_start_loc(self) -> Tensor:
        return torch.tensor([0, *accumulate(self.query_lens)], dtype=torch.int32)

    def decode(self, backend: str) -> Tensor:
        need(backend)
        caches = (self.keys, self.values, self.table, self.seq_lens)
        return attention.paged_attention(self.query, *caches, **self.options, backend=backend)

    def prefill(self, backend: str, **more: Any) -> Tensor:
        need(backend)
        caches = (self.keys, self.values, self.table, self.seq_lens)
        loc, options = self.query_start_loc, {**self.options, **more}
        return attention.paged_prefill(self.prefill_query, *caches, loc, **options, backend=backend)

    def short(self, backend: str) -> Tensor:
        """Prefill by the kernels for few query tokens."""
        return self.prefill(backend, max_query_len=8)

    def exact(self) -> "Case":
        """The same numbers in float64, for the reference."""
        wide = {"query": self.query.double(), "prefill_query": self.prefill_query.double()}
        if self.keys.dtype.itemsize > 1:
            wide |= {"keys": self.keys.double(), "values": self.values.double()}
        return replace(self, **wide)


def need(backend: str) -> None:
    """Skips where Triton has no wheel."""
    if backend == "triton":
        pytest.importorskip("triton")


def make_case(
    seq_lens: list[int],
    *,
    num_heads: int = 4,
    num_kv_heads: int = 2,
    head_dim: int = 16,
    block_size: int = 4,
    dtype: torch.dtype = torch.float32,
    cache_dtype: torch.dtype | None = None,
    query_lens: list[int] | None = None,
    seed: int = 0,
    token_scales: bool = False,
    drops: bool = False,
    **options: Any,
) -> Case:
    """A batch whose dead slots are NaN and whose unneeded table entries are POISON.

    With `token_scales` each vector of an 8-bit cache has its own, NaN in dead slots; with `drops` two
    tokens of three stop being seen at some position.
    """
    torch.manual_seed(seed)
    query_lens = [min(length, 3) for length in seq_lens] if query_lens is None else query_lens
    max_blocks = max(-(-max(seq_lens, default=0) // block_size), 0) + 2
    num_blocks = len(seq_lens) * max_blocks + 3
    shape = (num_blocks, block_size, num_kv_heads, head_dim)
    cache_dtype = cache_dtype or dtype
    is_byte = cache_dtype.itemsize == 1
    fill = 0.0 if cache_dtype == torch.int8 else float("nan")
    keys, values = torch.full(shape, fill).to(cache_dtype), torch.full(shape, fill).to(cache_dtype)
    order = torch.randperm(num_blocks)[: len(seq_lens) * max_blocks].view(len(seq_lens), max_blocks)
    table = torch.full(order.shape, POISON, dtype=torch.int32)
    if token_scales:
        options |= {name: torch.full(shape[:-1], float("nan")) for name in ("key_scales", "value_scales")}
    if drops:
        tokens = torch.arange(max(seq_lens, default=0) + 3)
        lasting = torch.randint(0, 40, (len(seq_lens), len(tokens)))
        lasting[:, ::3] = POISON
        options["seen_until"] = (tokens + lasting).to(torch.int32)
    for row, (length, query_len) in enumerate(zip(seq_lens, query_lens, strict=True)):
        first_query = length - max(query_len, 1)
        for token in range(length):
            window = options.get("window")
            if window and token <= first_query - window and token >= options.get("sinks", 0):
                continue
            if drops and options["seen_until"][row, token] < first_query:
                continue
            block = order[row, token // block_size]
            table[row, token // block_size] = block
            scale = 60 if cache_dtype == torch.int8 else 1
            numbers = (torch.randn(2, num_kv_heads, head_dim) * scale).to(cache_dtype)
            if token_scales:
                options["key_scales"][block, token % block_size] = torch.rand(num_kv_heads) / scale
                sizes = 10.0 ** torch.randint(-6, 6, (num_kv_heads,))
                options["value_scales"][block, token % block_size] = torch.rand(num_kv_heads) * sizes
            put = torch.uint8 if is_byte else cache_dtype
            keys.view(put)[block, token % block_size] = numbers[0].view(put)
            values.view(put)[block, token % block_size] = numbers[1].view(put)
    query = torch.randn(len(seq_lens), num_heads, head_dim).to(dtype)
    prefill_query = torch.randn(sum(query_lens), num_heads, head_dim).to(dtype)
    lengths = torch.tensor(seq_lens, dtype=torch.int32)
    return Case(keys, values, table, lengths, query, query_lens, prefill_query, options)


def assert_near(actual: Tensor, expected: Tensor, tolerance: float | None = None) -> None:
    """Equal within what the actual dtype can hold; NaN is never equal."""
    tolerance = TOLERANCE[actual.dtype] if tolerance is None else tolerance
    torch.testing.assert_close(actual.double(), expected.double(), rtol=tolerance, atol=tolerance)
