"""Weights drawn from a seed: any shape runs without a download."""

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.parameters import CutLayer, Layer, Parameters
from engine.weights import hashed_uniform
from sim.models import ModelSpec

# Gains over 1 / sqrt(fan in). Sharp attention that outweighs the residual stream makes the next token hang on
# the whole context: greedy decoding then neither repeats one token nor forgets a damaged cache.
QK_GAIN = 1.5
ATTENTION_OUTPUT_GAIN = 4.0


@dataclass(frozen=True, slots=True)
class RandomWeights:
    """Implements `WeightSource`. Weights depend on the spec, `seed` and the dtype alone, not on the device.

    They are never tied and have no biases, whatever the spec says: a tied random model repeats its input.
    """

    seed: int

    def load(self, spec: ModelSpec, dtype: torch.dtype, device: torch.device, cut: CutLayer) -> Parameters:
        """See `WeightSource`."""
        draw = _Drawer(self.seed, dtype, device)
        return Parameters(
            embedding=draw.matrix("embedding", spec.vocab, spec.hidden, gain=spec.hidden**0.5),
            layers=[cut(draw.layer(spec, f"layers.{index}")) for index in range(spec.num_layers)],
            final_norm=draw.ones(spec.hidden),
            lm_head=draw.matrix("lm_head", spec.vocab, spec.hidden),
        )


@dataclass(frozen=True, slots=True)
class _Drawer:
    seed: int
    dtype: torch.dtype
    device: torch.device

    def layer(self, spec: ModelSpec, name: str) -> Layer:
        num_query_rows, num_kv_rows = spec.num_heads * spec.head_dim, spec.num_kv_heads * spec.head_dim
        query_key = self.matrix(f"{name}.qk", num_query_rows + num_kv_rows, spec.hidden, gain=QK_GAIN)
        value = self.matrix(f"{name}.v", num_kv_rows, spec.hidden)
        return Layer(
            attention_norm=self.ones(spec.hidden),
            qkv=torch.cat([query_key, value]),
            output=self.matrix(f"{name}.output", spec.hidden, num_query_rows, gain=ATTENTION_OUTPUT_GAIN),
            mlp_norm=self.ones(spec.hidden),
            gate_up=self.matrix(f"{name}.gate_up", 2 * spec.intermediate, spec.hidden),
            down=self.matrix(f"{name}.down", spec.hidden, spec.intermediate),
        )

    def matrix(self, name: str, num_rows: int, num_columns: int, gain: float = 1.0) -> Tensor:
        std = gain / num_columns**0.5
        return hashed_uniform(self.seed, name, (num_rows, num_columns), std, self.dtype, self.device)

    def ones(self, size: int) -> Tensor:
        return torch.ones(size, dtype=self.dtype, device=self.device)
