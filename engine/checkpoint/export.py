"""A model as a Hugging Face folder: for other programs that are to run the same weights."""

import json
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import Tensor

from engine.checkpoint.text import TextSide
from engine.model import LlamaModel
from sim.errors import InputError
from sim.models import ModelSpec


def export(model: LlamaModel, folder: Path, text: TextSide | None = None) -> None:
    """Writes weights and settings, and the tokenizer of `text`. The model must be whole, and not packed."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file(
        {name: tensor.contiguous().cpu() for name, tensor in tensors(model).items()},
        folder / "model.safetensors",
        metadata={"format": "pt"},
    )
    settings = settings_of(model.spec, str(model.dtype).removeprefix("torch."))
    if text is not None:
        settings |= {"eos_token_id": sorted(text.end_ids), "bos_token_id": text.begin_id}
        text.tokenizer.save(str(folder / "tokenizer.json"))
        end = text.tokenizer.id_to_token(min(text.end_ids))
        about = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": end, "pad_token": end}
        _write(folder / "tokenizer_config.json", {**about, "chat_template": text.chat_template})
    _write(folder / "config.json", settings)


def tensors(model: LlamaModel) -> dict[str, Tensor]:
    """Weights by their Hugging Face names, fused matrices taken apart."""
    spec = model.spec
    rows = [heads * spec.head_dim for heads in (spec.num_heads, spec.num_kv_heads, spec.num_kv_heads)]
    found = {"model.embed_tokens.weight": model.embedding, "model.norm.weight": model.final_norm}
    if not spec.is_tied:
        found["lm_head.weight"] = _plain(model.lm_head)
    for index, layer in enumerate(model.layers):
        name = f"model.layers.{index}"
        parts = zip("qkv", _plain(layer.qkv).split(rows), strict=True)
        found |= {f"{name}.self_attn.{part}_proj.weight": matrix for part, matrix in parts}
        if layer.qkv_bias is not None:
            parts = zip("qkv", layer.qkv_bias.split(rows), strict=True)
            found |= {f"{name}.self_attn.{part}_proj.bias": bias for part, bias in parts}
        gate, up = _plain(layer.gate_up).chunk(2)
        found |= {
            f"{name}.self_attn.o_proj.weight": _plain(layer.output),
            f"{name}.mlp.gate_proj.weight": gate,
            f"{name}.mlp.up_proj.weight": up,
            f"{name}.mlp.down_proj.weight": _plain(layer.down),
            f"{name}.input_layernorm.weight": layer.attention_norm,
            f"{name}.post_attention_layernorm.weight": layer.mlp_norm,
        }
    return found


def settings_of(spec: ModelSpec, dtype: str) -> dict[str, Any]:
    """The content of `config.json`. Raises InputError for a shape that it cannot say."""
    if spec.rope_scaling is not None:
        raise InputError(f"model {spec.name}: its stretched rotary positions are not exported")
    return {
        "architectures": ["Qwen2ForCausalLM" if spec.has_qkv_bias else "LlamaForCausalLM"],
        "model_type": "qwen2" if spec.has_qkv_bias else "llama",
        "vocab_size": spec.vocab,
        "hidden_size": spec.hidden,
        "intermediate_size": spec.intermediate,
        "num_hidden_layers": spec.num_layers,
        "num_attention_heads": spec.num_heads,
        "num_key_value_heads": spec.num_kv_heads,
        "head_dim": spec.head_dim,
        "max_position_embeddings": spec.max_positions,
        "rms_norm_eps": spec.rms_epsilon,
        "rope_theta": spec.rope_base,
        "tie_word_embeddings": spec.is_tied,
        "hidden_act": "silu",
        "torch_dtype": dtype,
    }


def _plain(matrix: object) -> Tensor:
    assert isinstance(matrix, Tensor), "a packed matrix cannot be read back: export before packing"
    return matrix


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
