"""Weights in a GGUF file, dequantized by the `gguf` library's own routines."""

from pathlib import Path

import torch
from gguf import ReaderTensor, dequantize
from torch import Tensor

from sim.errors import InputError
from sim.gguf_file import open_gguf, take, take_count

NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}  # GGUF's name of a module -> Hugging Face's


class GgufWeights:
    """Implements `TensorFile`. Matrices come out as float32, whatever the file stores."""

    def __init__(self, path: Path) -> None:
        self._path = path
        reader = open_gguf(path)
        kind = take(path, reader, "general.architecture")
        num_heads = take_count(path, reader, f"{kind}.attention.head_count")
        num_kv_heads = take_count(path, reader, f"{kind}.attention.head_count_kv", num_heads)
        # Converters permute the rows of queries and keys for llama alone: see `unpermute`.
        self._permuted = {"q_proj": num_heads, "k_proj": num_kv_heads} if kind == "llama" else {}
        self._tensors = {full_name(tensor.name): tensor for tensor in reader.tensors}

    def read(self, name: str) -> Tensor | None:
        """See `TensorFile`."""
        if name not in self._tensors:
            return None
        values = self._dequantized(self._tensors[name])
        num_heads = self._permuted.get(name.split(".")[-2])
        if num_heads is None:
            return values
        if values.shape[0] % (2 * num_heads):
            raise InputError(
                f"{self.describe(name)}: {values.shape[0]} rows are no pairs of {num_heads} heads"
            )
        return unpermute(values, num_heads)

    def describe(self, name: str) -> str:
        """See `TensorFile`."""
        stored = self._tensors[name].name if name in self._tensors else name
        return f"{self._path}: tensor {stored}"

    def _dequantized(self, tensor: ReaderTensor) -> Tensor:
        try:
            values = dequantize(tensor.data, tensor.tensor_type)
        except NotImplementedError:
            raise InputError(
                f"{self._path}: tensor {tensor.name} is {tensor.tensor_type.name}, which the gguf library "
                "does not dequantize; use another quantization of the model, such as Q4_0, Q8_0 or F16"
            ) from None
        return torch.tensor(values, dtype=torch.float32)  # a copy: the file is mapped read-only


def full_name(name: str) -> str:
    """Hugging Face's name: `model.layers.3.mlp.up_proj.weight` for `blk.3.ffn_up.weight`."""
    stem, _, kind = name.rpartition(".")
    if stem.count(".") < 2 or not stem.startswith("blk."):
        return f"{NAMES.get(stem, stem)}.{kind}"
    _, index, module = stem.split(".", 2)
    return f"model.layers.{index}.{NAMES.get(module, module)}.{kind}"


def unpermute(rows: Tensor, num_heads: int) -> Tensor:
    """Rows of queries or keys, from llama.cpp's order to Hugging Face's.

    llama.cpp rotates neighbours (x[2 i], x[2 i + 1]), Hugging Face (x[i], x[i + D / 2]): its converter puts
    row i of each head's first half to 2 i, and of its second half to 2 i + 1. [heads D, in], or a bias.
    """
    by_pair = rows.unflatten(0, (num_heads, rows.shape[0] // num_heads // 2, 2))
    return by_pair.transpose(1, 2).reshape(rows.shape)
