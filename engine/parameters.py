"""The tensors of a Llama decoder, and the seam behind which they come from: a seed, or files.

Symbols in shapes: H query heads, HKV key-value heads, D head_dim; a matrix is [out, in].
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Protocol

import torch
from torch import Tensor

from engine.packed import Matrix
from sim.models import ModelSpec


@dataclass(frozen=True, slots=True)
class Layer:
    """The weights of one decoder layer."""

    attention_norm: Tensor  # [hidden]
    qkv: Matrix  # [(H + 2 HKV) D, hidden]: queries, keys, values
    output: Matrix  # [hidden, H D]
    mlp_norm: Tensor  # [hidden]
    gate_up: Matrix  # [2 intermediate, hidden]
    down: Matrix  # [hidden, intermediate]
    qkv_bias: Tensor | None = None  # [(H + 2 HKV) D], of Qwen2


@dataclass(frozen=True, slots=True)
class Parameters:
    """All weights of a model. A tied model's `lm_head` is its `embedding`, the same memory."""

    embedding: Matrix  # [vocab, hidden]
    layers: list[Layer]
    final_norm: Tensor  # [hidden]
    lm_head: Matrix  # [vocab, hidden]

    @property
    def num_bytes(self) -> int:
        """Bytes of all tensors, those of a tied pair once."""
        tensors: list[Matrix | None] = [self.embedding, self.final_norm]
        tensors += [getattr(layer, item.name) for layer in self.layers for item in fields(Layer)]
        if self.lm_head is not self.embedding:
            tensors.append(self.lm_head)
        return sum(tensor.nbytes for tensor in tensors if tensor is not None)


CutLayer = Callable[[Layer], Layer]  # takes a rank's share of a layer


class WeightSource(Protocol):
    """Where weights come from."""

    def load(self, spec: ModelSpec, dtype: torch.dtype, device: torch.device, cut: CutLayer) -> Parameters:
        """The weights of `spec`; each layer goes through `cut` before the next is made.

        Raises InputError when a tensor is missing or has another shape than `spec` says.
        """
        ...
