"""A Llama-architecture decoder: RMSNorm, RoPE, grouped-query attention, SwiGLU.

It knows no cache. Each layer hands its queries, keys and values to `Attend`, which stores and
attends wherever the allocator put the sequence. Symbols in shape comments:

    T tokens of the step, all sequences one after another     H query heads   HKV key-value heads   D head_dim

Of several ranks each has its share of the heads and of the MLP; `Ranks` sums what they contribute.
"""

from dataclasses import replace
from typing import Protocol

import torch
from torch import Tensor

from engine.packed import PackedMatrix, can_pack, give_back_free_memory, project
from engine.parameters import Layer, WeightSource
from engine.random_weights import RandomWeights
from engine.ranks import ALONE, Ranks, cut_for
from engine.rope import rope_tables, rotate
from engine.rowwise import rms_norm, swiglu
from sim.models import ModelSpec
from sim.parallel import shard

CPU_MLP_ROWS = 256


class Attend(Protocol):
    """The cache of one step."""

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Stores `key` and `value` [T, HKV, D], then attends `query` [T, H, D] causally; gives [T, H, D]."""
        ...


class LlamaModel:
    """A decoder of shape `spec` with the weights of `source`, or with random ones of `seed`.

    `seed` also draws the prompts of requests that come without token ids.
    """

    def __init__(
        self,
        spec: ModelSpec,
        seed: int,
        dtype: torch.dtype,
        device: torch.device | str,
        *,
        source: WeightSource | None = None,
        ranks: Ranks = ALONE,
    ) -> None:
        self.spec = spec
        self.seed = seed
        self.dtype = dtype
        self.device = torch.device(device)
        self.ranks = ranks
        self.own = shard(spec, ranks.size)  # heads as this rank has them
        weights = (source or RandomWeights(seed)).load(spec, dtype, self.device, cut_for(spec, ranks))
        self.weights = weights
        self.embedding, self.layers = weights.embedding, weights.layers
        self.final_norm, self.lm_head = weights.final_norm, weights.lm_head
        self.cos, self.sin = rope_tables(spec, self.device)

    @property
    def num_weight_bytes(self) -> int:
        """Bytes of this rank's weights; the tables of sines and cosines are not among them."""
        return self.weights.num_bytes

    @property
    def is_packed(self) -> bool:
        """Whether its matrices are laid out for products by compiled loops: see `pack`."""
        return isinstance(self.lm_head, PackedMatrix)

    def pack(self) -> None:
        """Lays out all matrices for fast products, on a CPU in float32; a second call changes nothing.

        Nothing of the plain ones is kept: of a tied model the embedding is read out of the packed lm head.
        """
        if not can_pack(self.dtype, self.device):
            return
        for index, layer in enumerate(self.layers):
            matrices = {name: getattr(layer, name) for name in ("qkv", "output", "gate_up", "down")}
            packed = {name: PackedMatrix(one) for name, one in matrices.items() if isinstance(one, Tensor)}
            self.layers[index] = replace(layer, **packed)
        is_tied = self.lm_head is self.embedding
        if isinstance(self.lm_head, Tensor):
            self.lm_head = PackedMatrix(self.lm_head)
        if is_tied:
            self.embedding = self.lm_head
        self.weights = replace(self.weights, embedding=self.embedding, lm_head=self.lm_head)
        give_back_free_memory()

    @torch.inference_mode()
    def forward(
        self, token_ids: Tensor, positions: Tensor, kv: Attend, rows: Tensor, num_layers: int | None = None
    ) -> Tensor:
        """Logits [len(rows), vocab] of the tokens at `rows`; `token_ids` and `positions` are int64 [T].

        Only `rows`, the tokens after which something is emitted, go through the lm head. With `num_layers`
        they do so right after that many layers, which makes a small draft of the model itself.
        """
        hidden = self.embedding[token_ids]  # [T, hidden]
        cos, sin = self.cos[positions].unsqueeze(1), self.sin[positions].unsqueeze(1)  # [T, 1, D]
        for index, layer in enumerate(self.layers[:num_layers]):
            hidden += self.ranks.sum(self._attention(index, layer, hidden, cos, sin, kv))
            for part in hidden.split(self._mlp_rows):
                part += self.ranks.sum(self._mlp(layer, part))
        return project(self._norm(hidden[rows], self.final_norm), self.lm_head)

    def _attention(
        self, index: int, layer: Layer, hidden: Tensor, cos: Tensor, sin: Tensor, kv: Attend
    ) -> Tensor:
        num_heads, num_kv_heads = self.own.num_heads, self.own.num_kv_heads
        qkv = project(self._norm(hidden, layer.attention_norm), layer.qkv, layer.qkv_bias)
        qkv = qkv.view(len(hidden), num_heads + 2 * num_kv_heads, self.spec.head_dim)
        rotating, value = qkv.split([num_heads + num_kv_heads, num_kv_heads], dim=1)
        query, key = rotate(rotating, cos, sin).split([num_heads, num_kv_heads], dim=1)
        attended = kv.attend(index, query, key, value)
        return project(attended.reshape(len(hidden), -1), layer.output)

    def _mlp(self, layer: Layer, hidden: Tensor) -> Tensor:
        inner = swiglu(project(self._norm(hidden, layer.mlp_norm), layer.gate_up))
        return project(inner, layer.down)

    @property
    def _mlp_rows(self) -> int:
        """Tokens that go through an MLP at a time: on a CPU few, so that inner vectors stay in its cache."""
        return CPU_MLP_ROWS if self.device.type == "cpu" and self.ranks.size == 1 else 1 << 62

    def _norm(self, hidden: Tensor, weight: Tensor) -> Tensor:
        return rms_norm(hidden, weight, self.spec.rms_epsilon)
