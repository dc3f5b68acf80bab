"""Models to spoil: configs, weights and tokenizers."""

import json
from pathlib import Path

from engine.checkpoint.files import FileWeights
from engine.checkpoint.safetensors_folder import SafetensorsFolder
from engine.checkpoint.text import text_side
from sim.gguf_file import gguf_spec
from sim.model_files import folder_spec
from tests.malformed.judging import Target
from tests.malformed.mutations import BINARY, JSON

CONFIG = {
    "model_type": "llama", "vocab_size": 8, "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1,
    "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4, "max_position_embeddings": 32,
    "rms_norm_eps": 1e-5, "rope_theta": 1e4, "tie_word_embeddings": True, "hidden_act": "silu", "eos_token_id": 2,
}  # fmt: skip
CONFIGS = (
    json.dumps(CONFIG).encode(),
    json.dumps({**CONFIG, "model_type": "qwen2", "sliding_window": 16, "use_sliding_window": True}).encode(),
    json.dumps(
        {
            **CONFIG,
            "rope_parameters": {
                "rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                "original_max_position_embeddings": 16,
            },
        }
    ).encode(),
)  # fmt: skip


def tiny_safetensors(folder: Path) -> list[bytes]:
    """One-layer weights of `CONFIG`, in 2 KB."""
    import torch
    from safetensors.torch import save

    shapes = {
        "model.embed_tokens.weight": (8, 8), "model.norm.weight": (8,),
        "model.layers.0.self_attn.q_proj.weight": (8, 8), "model.layers.0.self_attn.k_proj.weight": (4, 8),
        "model.layers.0.self_attn.v_proj.weight": (4, 8), "model.layers.0.self_attn.o_proj.weight": (8, 8),
        "model.layers.0.mlp.gate_proj.weight": (8, 8), "model.layers.0.mlp.up_proj.weight": (8, 8),
        "model.layers.0.mlp.down_proj.weight": (8, 8), "model.layers.0.input_layernorm.weight": (8,),
        "model.layers.0.post_attention_layernorm.weight": (8,),
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(CONFIG))
    return [save({name: torch.zeros(shape) for name, shape in shapes.items()})]


def load_weights(path: Path) -> None:
    import torch

    spec = folder_spec(path.parent)
    FileWeights(path.parent).load(spec, torch.float32, torch.device("cpu"), lambda layer: layer)


def index_seeds(folder: Path) -> list[bytes]:
    (folder / "model-00001-of-00001.safetensors").write_bytes(tiny_safetensors(folder)[0])
    names = ("model.embed_tokens.weight", "model.norm.weight")
    return [
        json.dumps(
            {"metadata": {}, "weight_map": dict.fromkeys(names, "model-00001-of-00001.safetensors")}
        ).encode()
    ]


def tokenizer_seeds(folder: Path) -> list[bytes]:
    from tokenizers import AddedToken, Tokenizer, models

    tokenizer = Tokenizer(models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")]))
    tokenizer.add_special_tokens([AddedToken("<e>", special=True)])
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "chat_template.jinja").write_text("{{ messages[-1].content }}")
    return [tokenizer.to_str().encode()]


def settings_seeds(folder: Path) -> list[bytes]:
    (folder / "tokenizer.json").write_bytes(tokenizer_seeds(folder)[0])
    (folder / "chat_template.jinja").unlink()
    return [
        json.dumps(
            {"eos_token": "<e>", "chat_template": "{% for m in messages %}{{ m.content }}{% endfor %}"}
        ).encode(),
        json.dumps(
            {"eos_token": {"content": "<e>"}, "chat_template": "{{ messages[0]['content'] | upper }}"}
        ).encode(),
    ]


def speak(path: Path) -> None:
    side = text_side(path.parent)
    side.encode_chat("ab", "b")
    side.decode(side.encode("ab"))


def gguf_seeds(folder: Path) -> list[bytes]:
    """A whole one-layer model with a tokenizer, in 6 KB."""
    import numpy as np
    from gguf import GGUFWriter

    path = folder / "seed.gguf"
    writer = GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_context_length(32)
    writer.add_embedding_length(8)
    writer.add_feed_forward_length(8)
    writer.add_head_count(2)
    writer.add_head_count_kv(1)
    writer.add_key_length(4)
    writer.add_rope_freq_base(1e4)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(["<e>", "a", "b", "ab", "c", "d", "e", "f"])
    writer.add_token_types([3, 1, 1, 1, 1, 1, 1, 1])
    writer.add_token_merges(["a b"])
    writer.add_eos_token_id(0)
    for name, shape in (
        ("token_embd", (8, 8)), ("output_norm", (8,)), ("blk.0.attn_q", (8, 8)), ("blk.0.attn_k", (4, 8)),
        ("blk.0.attn_v", (4, 8)), ("blk.0.attn_output", (8, 8)), ("blk.0.ffn_gate", (8, 8)), ("blk.0.ffn_up", (8, 8)),
        ("blk.0.ffn_down", (8, 8)), ("blk.0.attn_norm", (8,)), ("blk.0.ffn_norm", (8,)),
    ):  # fmt: skip
        writer.add_tensor(f"{name}.weight", np.zeros(shape, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return [path.read_bytes()]


def load_gguf(path: Path) -> None:
    import torch

    spec = gguf_spec(path)
    side = text_side(path)
    side.decode(side.encode("ab"))
    FileWeights(path).load(spec, torch.float32, torch.device("cpu"), lambda layer: layer)


CHECKPOINTS = {
    "config.json": Target(
        seeds=lambda _: CONFIGS, mutations=JSON, read=lambda path: folder_spec(path.parent), file="config.json"
    ),
    "safetensors": Target(
        seeds=tiny_safetensors, mutations=BINARY, read=load_weights, file="model.safetensors", wanted=300
    ),
    "index of shards": Target(
        seeds=index_seeds,
        mutations=JSON,
        read=lambda path: SafetensorsFolder(path.parent),
        file="model.safetensors.index.json",
        wanted=300,
    ),
    "tokenizer.json": Target(seeds=tokenizer_seeds, mutations=JSON, read=speak, file="tokenizer.json", wanted=200),
    "tokenizer_config.json": Target(seeds=settings_seeds, mutations=JSON, read=speak, file="tokenizer_config.json", wanted=200),
    "gguf": Target(seeds=gguf_seeds, mutations=BINARY, read=load_gguf, file="model.gguf", wanted=200),
}  # fmt: skip
