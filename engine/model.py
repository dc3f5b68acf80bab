"""A Llama-architecture decoder with seeded random weights: RMSNorm, RoPE, grouped-query attention, SwiGLU.

It knows no cache. Each layer hands its queries, keys and values to `Attend`, which stores and
attends wherever the allocator put the sequence. Symbols in shape comments:

    T tokens of the step, all sequences one after another     H query heads   HKV key-value heads   D head_dim
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import linear, silu

from engine.weights import hashed_uniform
from sim.models import ModelSpec

RMS_EPSILON = 1e-5
ROPE_BASE = 10_000.0
# Gains over 1 / sqrt(fan in). Sharp attention that outweighs the residual stream makes the next token hang on
# the whole context: greedy decoding then neither repeats one token nor forgets a damaged cache.
QK_GAIN = 1.5
ATTENTION_OUTPUT_GAIN = 4.0


class Attend(Protocol):
    """The cache of one step."""

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Stores `key` and `value` [T, HKV, D], then attends `query` [T, H, D] causally; gives [T, H, D]."""
        ...


@dataclass(frozen=True, slots=True)
class Layer:
    """The weights of one decoder layer; a matrix is [out, in]."""

    attention_norm: Tensor  # [hidden]
    qkv: Tensor  # [(H + 2 HKV) D, hidden]: queries, keys, values
    output: Tensor  # [hidden, H D]
    mlp_norm: Tensor  # [hidden]
    gate_up: Tensor  # [2 intermediate, hidden]
    down: Tensor  # [hidden, intermediate]


class LlamaModel:
    """Weights depend on `spec`, `seed` and `dtype` alone, not on the device."""

    def __init__(self, spec: ModelSpec, seed: int, dtype: torch.dtype, device: torch.device | str) -> None:
        self.spec = spec
        self.seed = seed
        self.dtype = dtype
        self.device = torch.device(device)
        self.embedding = self._matrix("embedding", spec.vocab, spec.hidden, gain=spec.hidden**0.5)
        self.layers = [self._layer(f"layers.{index}") for index in range(spec.num_layers)]
        self.final_norm = self._ones(spec.hidden)
        self.lm_head = self._matrix("lm_head", spec.vocab, spec.hidden)
        self.cos, self.sin = rope_tables(spec.max_positions, spec.head_dim, self.device)

    @property
    def num_weight_bytes(self) -> int:
        """Bytes of all weights; the tables of sines and cosines are not among them."""
        tensors = [self.embedding, self.final_norm, self.lm_head]
        for layer in self.layers:
            tensors += [getattr(layer, name) for name in Layer.__slots__]
        return sum(tensor.nbytes for tensor in tensors)

    @torch.inference_mode()
    def forward(self, token_ids: Tensor, positions: Tensor, kv: Attend, rows: Tensor) -> Tensor:
        """Logits [len(rows), vocab] of the tokens at `rows`; `token_ids` and `positions` are int64 [T].

        Only `rows`, the tokens after which something is emitted, go through the lm head.
        """
        hidden = self.embedding[token_ids]  # [T, hidden]
        cos, sin = self.cos[positions].unsqueeze(1), self.sin[positions].unsqueeze(1)  # [T, 1, D / 2]
        for index, layer in enumerate(self.layers):
            hidden = hidden + self._attention(index, layer, hidden, cos, sin, kv)
            gate, up = linear(rms_norm(hidden, layer.mlp_norm), layer.gate_up).chunk(2, dim=-1)
            hidden = hidden + linear(silu(gate) * up, layer.down)
        return linear(rms_norm(hidden[rows], self.final_norm), self.lm_head)

    def _attention(
        self, index: int, layer: Layer, hidden: Tensor, cos: Tensor, sin: Tensor, kv: Attend
    ) -> Tensor:
        spec = self.spec
        qkv = linear(rms_norm(hidden, layer.attention_norm), layer.qkv)
        qkv = qkv.view(len(hidden), spec.num_heads + 2 * spec.num_kv_heads, spec.head_dim)
        query, key, value = qkv.split([spec.num_heads, spec.num_kv_heads, spec.num_kv_heads], dim=1)
        attended = kv.attend(index, rotate(query, cos, sin), rotate(key, cos, sin), value)
        return linear(attended.reshape(len(hidden), -1), layer.output)

    def _layer(self, name: str) -> Layer:
        spec = self.spec
        num_query_rows, num_kv_rows = spec.num_heads * spec.head_dim, spec.num_kv_heads * spec.head_dim
        query_key = self._matrix(f"{name}.qk", num_query_rows + num_kv_rows, spec.hidden, gain=QK_GAIN)
        value = self._matrix(f"{name}.v", num_kv_rows, spec.hidden)
        return Layer(
            attention_norm=self._ones(spec.hidden),
            qkv=torch.cat([query_key, value]),
            output=self._matrix(f"{name}.output", spec.hidden, num_query_rows, gain=ATTENTION_OUTPUT_GAIN),
            mlp_norm=self._ones(spec.hidden),
            gate_up=self._matrix(f"{name}.gate_up", 2 * spec.intermediate, spec.hidden),
            down=self._matrix(f"{name}.down", spec.hidden, spec.intermediate),
        )

    def _matrix(self, name: str, num_rows: int, num_columns: int, gain: float = 1.0) -> Tensor:
        std = gain / num_columns**0.5
        return hashed_uniform(self.seed, name, (num_rows, num_columns), std, self.dtype, self.device)

    def _ones(self, size: int) -> Tensor:
        return torch.ones(size, dtype=self.dtype, device=self.device)


def rms_norm(hidden: Tensor, weight: Tensor) -> Tensor:
    """`hidden` over its root mean square, in float32 (Zhang and Sennrich 2019)."""
    wide = hidden.float()
    scale = torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + RMS_EPSILON)
    return (wide * scale).to(hidden.dtype) * weight


def rope_tables(num_positions: int, head_dim: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Cosines and sines, float32 [num_positions, head_dim / 2] (Su et al. 2021), computed once on the CPU."""
    frequencies = ROPE_BASE ** (-torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
    angles = torch.outer(torch.arange(num_positions, dtype=torch.float64), frequencies)
    return angles.cos().float().to(device), angles.sin().float().to(device)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotates the pairs (x[i], x[i + D / 2]) of `x` [T, heads, D], as Llama does."""
    first, second = x.float().chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1).to(x.dtype)
