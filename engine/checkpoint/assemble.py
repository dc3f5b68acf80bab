"""From the tensors of a file to the fused matrices of the engine's model."""

from typing import Protocol

import torch
from torch import Tensor

from engine.parameters import CutLayer, Layer, Parameters
from sim.errors import InputError
from sim.models import ModelSpec


class TensorFile(Protocol):
    """Named tensors on disk. Names are those of Hugging Face's Llama, whatever the file calls them."""

    def read(self, name: str) -> Tensor | None:
        """The tensor in the file's precision, None where the file has none of that name."""
        ...

    def describe(self, name: str) -> str:
        """File and tensor, for a message."""
        ...


def assemble(
    file: TensorFile, spec: ModelSpec, dtype: torch.dtype, device: torch.device, cut: CutLayer
) -> Parameters:
    """All weights of `spec`, one layer at a time. Raises InputError for a missing or misshapen tensor."""
    take = _Taker(file, dtype, device)
    embedding = take.tensor("model.embed_tokens.weight", spec.vocab, spec.hidden)
    return Parameters(
        embedding=embedding,
        layers=[cut(take.layer(spec, f"model.layers.{index}")) for index in range(spec.num_layers)],
        final_norm=take.tensor("model.norm.weight", spec.hidden),
        lm_head=embedding if spec.is_tied else take.tensor("lm_head.weight", spec.vocab, spec.hidden),
    )


class _Taker:
    def __init__(self, file: TensorFile, dtype: torch.dtype, device: torch.device) -> None:
        self._file = file
        self._dtype = dtype
        self._device = device

    def tensor(self, name: str, *shape: int) -> Tensor:
        found = self._file.read(name)
        if found is None:
            raise InputError(f"{self._file.describe(name)}: is missing; the file is no complete model")
        if found.shape != shape:
            raise InputError(
                f"{self._file.describe(name)}: has shape {list(found.shape)}, its model's is {list(shape)}"
            )
        return found.to(self._device, self._dtype).contiguous()

    def layer(self, spec: ModelSpec, name: str) -> Layer:
        attention, mlp = f"{name}.self_attn", f"{name}.mlp"
        rows = {"q": spec.num_heads, "k": spec.num_kv_heads, "v": spec.num_kv_heads}
        rows = {part: num_heads * spec.head_dim for part, num_heads in rows.items()}
        qkv = [self.tensor(f"{attention}.{part}_proj.weight", n, spec.hidden) for part, n in rows.items()]
        bias = None
        if spec.has_qkv_bias:
            bias = torch.cat([self.tensor(f"{attention}.{part}_proj.bias", n) for part, n in rows.items()])
        inner = [
            self.tensor(f"{mlp}.{part}_proj.weight", spec.intermediate, spec.hidden)
            for part in ("gate", "up")
        ]
        return Layer(
            attention_norm=self.tensor(f"{name}.input_layernorm.weight", spec.hidden),
            qkv=torch.cat(qkv),
            output=self.tensor(f"{attention}.o_proj.weight", spec.hidden, rows["q"]),
            mlp_norm=self.tensor(f"{name}.post_attention_layernorm.weight", spec.hidden),
            gate_up=torch.cat(inner),
            down=self.tensor(f"{mlp}.down_proj.weight", spec.hidden, spec.intermediate),
            qkv_bias=bias,
        )
