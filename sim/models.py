"""Models by name or by file, and sizes as people write them."""

import re
from fractions import Fraction

from sim.errors import InputError, unknown_name
from sim.model_files import is_model_path, read_spec
from sim.spec import KV_DTYPES, QUANTIZED_DTYPES, SCALE_BYTES, ModelSpec, element_bytes, llama_spec

__all__ = [
    "KV_DTYPES",
    "MODELS",
    "QUANTIZED_DTYPES",
    "SCALE_BYTES",
    "ModelSpec",
    "element_bytes",
    "get_model",
    "parse_bytes",
    "parse_rate",
]

UNITS = {
    "": 1, "b": 1,
    "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
    "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40,
}  # fmt: skip


def _opt(name: str, num_layers: int, num_heads: int, hidden: int, source: str) -> ModelSpec:
    """OPT (arXiv 2205.01068): learned positions, biases everywhere, 4x FFN, output tied to the embedding."""
    vocab, max_positions, intermediate = 50272, 2048, 4 * hidden
    attention = 4 * (hidden * hidden + hidden)
    ffn = 2 * hidden * intermediate + intermediate + hidden
    norm = 2 * hidden
    embeddings = (vocab + max_positions + 2) * hidden  # OPT's position table starts at index 2
    return ModelSpec(
        name=name,
        num_layers=num_layers,
        num_heads=num_heads,
        num_kv_heads=num_heads,
        head_dim=hidden // num_heads,
        hidden=hidden,
        intermediate=intermediate,
        vocab=vocab,
        num_parameters=embeddings + num_layers * (attention + ffn + 2 * norm) + norm,
        max_positions=max_positions,
        source=source,
    )


_OPT_PAPER = "OPT paper, arXiv 2205.01068, table 1; {} config.json"
_SPECS = (
    _opt("opt-13b", 40, 40, 5120, _OPT_PAPER.format("facebook/opt-13b")),
    _opt("opt-66b", 64, 72, 9216, _OPT_PAPER.format("facebook/opt-66b")),
    _opt("opt-175b", 96, 96, 12288, "OPT paper, arXiv 2205.01068, table 1 (175B)"),
    llama_spec("llama-2-7b", 32, (32, 32), 4096, 11008, 32000, 4096, "meta-llama/Llama-2-7b-hf config.json"),
    llama_spec(
        "llama-2-13b", 40, (40, 40), 5120, 13824, 32000, 4096, "meta-llama/Llama-2-13b-hf config.json"
    ),
    llama_spec("llama-2-70b", 80, (64, 8), 8192, 28672, 32000, 4096, "meta-llama/Llama-2-70b-hf config.json"),
    llama_spec(
        "llama-3-8b", 32, (32, 8), 4096, 14336, 128256, 8192, "meta-llama/Meta-Llama-3-8B config.json",
        rope_base=500_000.0,
    ),
    llama_spec(
        "llama-3-70b", 80, (64, 8), 8192, 28672, 128256, 8192, "meta-llama/Meta-Llama-3-70B config.json",
        rope_base=500_000.0,
    ),
    llama_spec(
        "qwen2.5-0.5b", 24, (14, 2), 896, 4864, 151936, 32768, "Qwen/Qwen2.5-0.5B config.json",
        qkv_bias=True, tied=True, rope_base=1e6, rms_epsilon=1e-6,
    ),
    llama_spec(
        "qwen2.5-7b", 28, (28, 4), 3584, 18944, 152064, 131072, "Qwen/Qwen2.5-7B config.json",
        qkv_bias=True, rope_base=1e6, rms_epsilon=1e-6,
    ),
    llama_spec("mistral-7b", 32, (32, 8), 4096, 14336, 32000, 32768, "mistralai/Mistral-7B-v0.1 config.json"),
    llama_spec(
        "smollm2-135m", 30, (9, 3), 576, 1536, 49152, 8192, "HuggingFaceTB/SmolLM2-135M config.json",
        tied=True, rope_base=100_000.0,
    ),
    llama_spec("tiny", 2, (4, 2), 64, 128, 256, 4096, "PageLab's own: a decode step takes 1 ms on a laptop"),
)  # fmt: skip

MODELS = {spec.name: spec for spec in _SPECS}


def get_model(name: str) -> ModelSpec:
    """The preset called `name`, or the model in the folder or GGUF file of that path.

    Raises `InputError` that names the nearest known one, or says what is wrong with the file.
    """
    if name not in MODELS and is_model_path(name):
        return read_spec(name)
    if name not in MODELS:
        raise unknown_name("model", name, MODELS)
    return MODELS[name]


def parse_bytes(text: str) -> int:
    """Whole bytes in `text`: `12GiB`, `1.5 GB`, `4096`. kB, MB, GB, TB are decimal, KiB to TiB binary.

    Raises `InputError` for anything else, for zero, and for a size that is not a whole number of bytes.
    """
    match = re.fullmatch(r"\s*([0-9]{1,18}(?:\.[0-9]{1,18})?)\s*([A-Za-z]*)\s*", text)
    if not match or match[2].lower() not in UNITS:
        raise InputError(
            f"size {text[:40]!r}: must be a number and a unit such as 12GiB "
            "(B, kB, MB, GB, TB are decimal; KiB, MiB, GiB, TiB binary)"
        )
    size = Fraction(match[1]) * UNITS[match[2].lower()]
    if size.denominator != 1 or size < 1:
        raise InputError(f"size {text!r}: is {float(size):g} bytes; must be a whole number of at least 1")
    return int(size)


def parse_rate(text: str) -> int:
    """Whole bytes per second in `text`, such as `25GB/s`. Raises `InputError` for anything else."""
    if not text.strip().endswith("/s"):
        raise InputError(f"rate {text[:40]!r}: must be a size per second such as 25GB/s")
    return parse_bytes(text.strip().removesuffix("/s"))
