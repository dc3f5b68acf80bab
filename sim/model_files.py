"""The shape of a model in files: a folder as Hugging Face lays it out, or one GGUF file.

Only what describes the model is read here, never a weight. What the engine would compute differently from
the model's authors is refused, so that nobody reads a figure of a model that is not theirs.
"""

import os
from functools import lru_cache
from pathlib import Path
from typing import Any

from sim.errors import InputError
from sim.json_file import read_object
from sim.spec import ModelSpec, RopeScaling, llama_spec

KINDS = {"llama": False, "mistral": False, "qwen2": True}  # model_type -> biases on queries, keys and values
MISSING = object()


def is_model_path(name: str) -> bool:
    """Whether `name` means a file or a folder rather than a preset."""
    return name.endswith(".gguf") or os.sep in name or "/" in name or os.path.isfile(f"{name}/config.json")


def read_spec(path: str) -> ModelSpec:
    """The model in the folder or GGUF file at `path`; read again only when the file has changed.

    Raises InputError for a missing or broken file, and for an architecture that is not Llama's.
    """
    where = Path(os.path.expanduser(path))
    described = where / "config.json" if os.path.isdir(where) else where
    if not os.path.isfile(described):  # False too for what can be no path, where `Path.is_file` raises
        raise InputError(
            f"model {path}: no such file; give a folder with config.json and safetensors, a .gguf file, or "
            "the name of a preset (`pagelab model list`)"
        )
    return _read(where, described.stat().st_mtime_ns)


@lru_cache(maxsize=16)
def _read(path: Path, changed_ns: int) -> ModelSpec:
    if path.is_dir():
        return folder_spec(path)
    from sim.gguf_file import gguf_spec  # its library takes a quarter of a second to import

    return gguf_spec(path)


def folder_spec(folder: Path) -> ModelSpec:
    """The spec that `config.json` in a folder describes. Raises InputError for what is not supported."""
    path = folder / "config.json"
    config = read_object(path)
    kind = _take(path, config, "model_type", str)
    if kind not in KINDS:
        raise InputError(
            f"{path}: model_type {kind!r}; the Llama architecture is known as {', '.join(KINDS)}"
        )
    _refuse_variants(path, config, kind)
    num_heads = _take(path, config, "num_attention_heads", int)
    rope = _take(path, config, "rope_parameters", dict, {}) or config
    return llama_spec(
        folder.resolve().name,
        _take(path, config, "num_hidden_layers", int),
        (num_heads, _take(path, config, "num_key_value_heads", int, num_heads)),
        _take(path, config, "hidden_size", int),
        _take(path, config, "intermediate_size", int),
        _take(path, config, "vocab_size", int),
        _num_positions(path, config),
        str(path),
        qkv_bias=KINDS[kind],
        tied=_take(path, config, "tie_word_embeddings", bool, False),
        head_dim=_take(path, config, "head_dim", int, None),
        rope_base=_take(path, rope, "rope_theta", float, 10_000.0),
        rope_scaling=_scaling(path, config),
        rms_epsilon=_take(path, config, "rms_norm_eps", float, 1e-6),
    )


def _refuse_variants(path: Path, config: dict[str, Any], kind: str) -> None:
    for name in ("attention_bias", "mlp_bias"):
        if config.get(name):
            raise InputError(
                f"{path}: {name} true; the engine's Llama has no such biases, only Qwen2's on q, k, v"
            )
    activation = config.get("hidden_act", "silu")
    if activation != "silu":
        raise InputError(f"{path}: hidden_act {activation!r}; the engine's MLP is gated by silu")
    if config.get("quantization_config"):
        raise InputError(f"{path}: the weights are quantized; use unquantized safetensors, or a GGUF file")
    if config.get("partial_rotary_factor", 1.0) != 1.0:
        raise InputError(f"{path}: partial_rotary_factor; the engine rotates whole heads")


def _num_positions(path: Path, config: dict[str, Any]) -> int:
    """As many as full attention may see: past its sliding window a model does not mean full attention."""
    most = _take(path, config, "max_position_embeddings", int)
    slides = _take(path, config, "use_sliding_window", bool, True)
    window = _take(path, config, "sliding_window", int, None) if slides else None
    return most if window is None else min(most, window)


def _scaling(path: Path, config: dict[str, Any]) -> RopeScaling | None:
    scaling: dict[str, Any] = {}
    for name in ("rope_scaling", "rope_parameters"):
        scaling = scaling or _take(path, config, name, dict, {})
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if kind == "default":
        return None
    if kind != "llama3":
        raise InputError(f"{path}: rope scaling {kind!r}; the engine knows none and llama3")
    return RopeScaling(
        _take(path, scaling, "factor", float),
        _take(path, scaling, "low_freq_factor", float),
        _take(path, scaling, "high_freq_factor", float),
        _take(path, scaling, "original_max_position_embeddings", int),
    )


def _take(path: Path, config: dict[str, Any], name: str, kind: type, default: Any = MISSING) -> Any:
    value = config.get(name, default)
    if value is None:
        value = default
    if value is MISSING:
        raise InputError(f"{path}: field {name!r} is missing")
    if value is default:
        return value
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    is_right = (
        is_whole and value >= 1 if kind is int else isinstance(value, kind) or (kind is float and is_whole)
    )
    if not is_right:
        raise InputError(f"{path}: field {name!r} is {value!r}, must be a {kind.__name__}")
    return float(value) if kind is float else value
