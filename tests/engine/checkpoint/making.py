"""Small checkpoints with random weights, written by the libraries whose formats they are."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType, GGUFWriter, quantize
from safetensors.torch import save_file
from torch import Tensor

from engine.checkpoint import FileWeights
from engine.model import LlamaModel
from sim.models import get_model
from tests.engine.test_attend import serve_one

SHAPE: dict[str, Any] = {
    "vocab_size": 96,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,  # not hidden / heads
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-3,  # large enough that the wrong one shows
    "rope_theta": 500.0,
    "tie_word_embeddings": False,
    "eos_token_id": 2,
}
LLAMA3_SCALING = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}


def reference(kind: str = "Llama", **changes: Any) -> Any:
    """The `transformers` implementation with seeded random weights; the test is skipped without it."""
    transformers = pytest.importorskip("transformers", reason="logits are compared with transformers' own")
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**{**SHAPE, **changes})
    model = getattr(transformers, f"{kind}ForCausalLM")(config).eval()
    for parameter in model.parameters():  # norms and biases too: ones and zeros hide mistakes
        torch.nn.init.normal_(parameter, mean=1.0 if parameter.dim() == 1 else 0.0, std=0.3)
    return model


def reference_logits(model: Any, ids: list[int]) -> Tensor:
    """Logits of the last token."""
    with torch.inference_mode():
        return model(torch.tensor([ids])).logits[0, -1]


def loaded(path: Path) -> LlamaModel:
    """The engine's model of a checkpoint."""
    return LlamaModel(get_model(str(path)), 0, torch.float32, "cpu", source=FileWeights(path))


def served_logits(model: LlamaModel, ids: list[int]) -> Tensor:
    """The engine's logits of the last token, over paged memory."""
    return serve_one(model, ids, "fp32")


def write_sharded(state: dict[str, Tensor], folder: Path, num_shards: int) -> None:
    """Safetensors shards and their index, in place of the one file."""
    import json

    names = sorted(state)
    weight_map = {}
    for shard in range(num_shards):
        file = f"model-{shard + 1:05}-of-{num_shards:05}.safetensors"
        mine = names[shard::num_shards]
        save_file({name: state[name].contiguous() for name in mine}, folder / file)
        weight_map.update(dict.fromkeys(mine, file))
    index = {"metadata": {}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")


def permute(rows: Tensor, num_heads: int) -> Tensor:
    """Rows of q or k as llama.cpp's converter orders them: each head's halves interleaved."""
    head_dim = rows.shape[0] // num_heads
    order = [
        head * head_dim + half * (head_dim // 2) + pair
        for head in range(num_heads)
        for pair in range(head_dim // 2)
        for half in range(2)
    ]
    return rows[order]


def write_gguf(
    state: dict[str, Tensor],
    path: Path,
    quantization: GGMLQuantizationType = GGMLQuantizationType.F32,
    arch: str = "llama",
    tokenizer: bool = True,
    **fields: Any,
) -> None:
    """A GGUF of a model with the shape above, as llama.cpp's converter would write it."""
    writer = GGUFWriter(path, arch)
    writer.add_block_count(SHAPE["num_hidden_layers"])
    writer.add_context_length(SHAPE["max_position_embeddings"])
    writer.add_embedding_length(SHAPE["hidden_size"])
    writer.add_feed_forward_length(SHAPE["intermediate_size"])
    writer.add_head_count(SHAPE["num_attention_heads"])
    writer.add_head_count_kv(SHAPE["num_key_value_heads"])
    writer.add_key_length(SHAPE["head_dim"])
    writer.add_rope_freq_base(SHAPE["rope_theta"])
    writer.add_layer_norm_rms_eps(SHAPE["rms_norm_eps"])
    if tokenizer:
        add_tokenizer(writer)
    for name, value in fields.items():
        writer.add_string(name.replace("__", "."), value)
    for name, tensor in state.items():
        values, kind = gguf_values(name, tensor, quantization, arch)
        writer.add_tensor(gguf_name(name), values, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def gguf_values(
    name: str, tensor: Tensor, quantization: GGMLQuantizationType, arch: str
) -> tuple[np.ndarray, GGMLQuantizationType]:
    """Vectors stay in float32, as in real files."""
    if arch == "llama" and name.endswith(("q_proj.weight", "k_proj.weight")):
        heads = "num_attention_heads" if "q_proj" in name else "num_key_value_heads"
        tensor = permute(tensor, SHAPE[heads])
    values = tensor.detach().numpy()
    if values.ndim == 1:
        return values, GGMLQuantizationType.F32
    return quantize(values, quantization), quantization


def gguf_name(name: str) -> str:
    """llama.cpp's name of a Hugging Face tensor."""
    renamed = {
        "model.embed_tokens": "token_embd",
        "model.norm": "output_norm",
        "lm_head": "output",
        "model.layers": "blk",
        "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ffn_norm",
        "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output",
        "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down",
    }
    for theirs, ours in renamed.items():
        name = name.replace(theirs, ours)
    return name


def add_tokenizer(writer: GGUFWriter) -> None:
    """Byte-level BPE over a few letters: enough to spell, merge and end."""
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    tokens = ["<unk>", "<|begin|>", "<|end|>", "Ġ", *letters, "th", "the", "Ġthe", "0", "1", "2"]
    tokens += [f"unused{index}" for index in range(SHAPE["vocab_size"] - len(tokens))]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token.startswith("<") else 1 for token in tokens])
    writer.add_token_merges(["t h", "th e", "Ġ the"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
