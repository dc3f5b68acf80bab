"""Model shapes, and the bytes that their weights and their KV cache take.

KV bytes per token = 2 (K and V) x layers x kv heads x bytes of one head's vector. A quantized vector
carries one fp32 scale, so each token and kv head has its own scale for K and its own for V.
"""

import re
from dataclasses import dataclass
from fractions import Fraction

from sim.errors import InputError, unknown_name

KV_DTYPES = {"fp16": 2, "bf16": 2, "fp32": 4, "fp8": 1, "int8": 1}  # bytes of one element
QUANTIZED_DTYPES = frozenset({"fp8", "int8"})
SCALE_BYTES = 4  # fp32

UNITS = {
    "": 1, "b": 1,
    "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
    "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40,
}  # fmt: skip


def element_bytes(dtype: str) -> int:
    """Bytes of one element, without scales. Raises `InputError` for a dtype that is not in `KV_DTYPES`."""
    if dtype not in KV_DTYPES:
        raise unknown_name("dtype", dtype, KV_DTYPES)
    return KV_DTYPES[dtype]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """The shape of a decoder. `source` says where the numbers come from."""

    name: str
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    hidden: int
    intermediate: int
    vocab: int
    num_parameters: int
    max_positions: int
    source: str

    @property
    def queries_per_kv_head(self) -> int:
        """1 for multi-head attention, more for grouped queries."""
        return self.num_heads // self.num_kv_heads

    @property
    def num_kv_tensors(self) -> int:
        """One for each layer's K and one for each layer's V."""
        return 2 * self.num_layers

    def kv_bytes_per_tensor(self, kv_dtype: str = "fp16") -> int:
        """Bytes of one token in one layer's K (V takes the same), scales included."""
        scale = SCALE_BYTES if kv_dtype in QUANTIZED_DTYPES else 0
        return self.num_kv_heads * (self.head_dim * element_bytes(kv_dtype) + scale)

    def kv_bytes_per_token(self, kv_dtype: str = "fp16") -> int:
        """Bytes of one slot: the keys and values of one token in all layers, scales included."""
        return self.num_kv_tensors * self.kv_bytes_per_tensor(kv_dtype)

    def kv_bytes_per_block(self, block_size: int, kv_dtype: str = "fp16") -> int:
        """Bytes of `block_size` slots. Raises `InputError` when `block_size` is below 1."""
        if block_size < 1:
            raise InputError(f"block size {block_size}: must be at least 1 (16 is usual)")
        return block_size * self.kv_bytes_per_token(kv_dtype)

    def weights_bytes(self, dtype: str = "fp16") -> int:
        """Bytes of all parameters at this dtype (scales of quantized weights are not counted)."""
        return self.num_parameters * element_bytes(dtype)

    def slots_in(self, kv_memory_bytes: int, kv_dtype: str = "fp16") -> int:
        """Slots in memory that holds nothing but the KV cache."""
        return kv_memory_bytes // self.kv_bytes_per_token(kv_dtype)

    def max_slots(self, memory_bytes: int, kv_dtype: str = "fp16", weights_dtype: str = "fp16") -> int:
        """Slots that fit beside the weights in `memory_bytes` of device memory.

        Activations are not counted. Raises `InputError` when the weights alone do not fit.
        """
        weights = self.weights_bytes(weights_dtype)
        if weights > memory_bytes:
            raise InputError(
                f"memory {memory_bytes} B is too small for {self.name}: its {weights_dtype} weights take "
                f"{weights} B; give more memory, a smaller model, or the size of the KV pool itself"
            )
        return self.slots_in(memory_bytes - weights, kv_dtype)


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


def _llama(
    name: str,
    num_layers: int,
    heads: tuple[int, int],
    hidden: int,
    intermediate: int,
    vocab: int,
    max_positions: int,
    source: str,
    *,
    qkv_bias: bool = False,
    tied: bool = False,
) -> ModelSpec:
    """Llama and its kin: rotary positions, grouped queries, SwiGLU (3 matrices), RMS norms.

    `heads` is (query heads, kv heads); `tied` means the output projection is the embedding.
    """
    num_heads, num_kv_heads = heads
    head_dim = hidden // num_heads
    qkv = (num_heads + 2 * num_kv_heads) * head_dim
    attention = hidden * qkv + num_heads * head_dim * hidden + (qkv if qkv_bias else 0)
    layer = attention + 3 * hidden * intermediate + 2 * hidden
    embeddings = vocab * hidden * (1 if tied else 2)
    return ModelSpec(
        name=name,
        num_layers=num_layers,
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        head_dim=head_dim,
        hidden=hidden,
        intermediate=intermediate,
        vocab=vocab,
        num_parameters=embeddings + num_layers * layer + hidden,
        max_positions=max_positions,
        source=source,
    )


_OPT_PAPER = "OPT paper, arXiv 2205.01068, table 1; {} config.json"
_SPECS = (
    _opt("opt-13b", 40, 40, 5120, _OPT_PAPER.format("facebook/opt-13b")),
    _opt("opt-66b", 64, 72, 9216, _OPT_PAPER.format("facebook/opt-66b")),
    _opt("opt-175b", 96, 96, 12288, "OPT paper, arXiv 2205.01068, table 1 (175B)"),
    _llama("llama-2-7b", 32, (32, 32), 4096, 11008, 32000, 4096, "meta-llama/Llama-2-7b-hf config.json"),
    _llama("llama-2-13b", 40, (40, 40), 5120, 13824, 32000, 4096, "meta-llama/Llama-2-13b-hf config.json"),
    _llama("llama-2-70b", 80, (64, 8), 8192, 28672, 32000, 4096, "meta-llama/Llama-2-70b-hf config.json"),
    _llama("llama-3-8b", 32, (32, 8), 4096, 14336, 128256, 8192, "meta-llama/Meta-Llama-3-8B config.json"),
    _llama("llama-3-70b", 80, (64, 8), 8192, 28672, 128256, 8192, "meta-llama/Meta-Llama-3-70B config.json"),
    _llama(
        "qwen2.5-0.5b", 24, (14, 2), 896, 4864, 151936, 32768, "Qwen/Qwen2.5-0.5B config.json",
        qkv_bias=True, tied=True,
    ),
    _llama(
        "qwen2.5-7b", 28, (28, 4), 3584, 18944, 152064, 131072, "Qwen/Qwen2.5-7B config.json",
        qkv_bias=True,
    ),
    _llama("mistral-7b", 32, (32, 8), 4096, 14336, 32000, 32768, "mistralai/Mistral-7B-v0.1 config.json"),
    _llama(
        "smollm2-135m", 30, (9, 3), 576, 1536, 49152, 8192, "HuggingFaceTB/SmolLM2-135M config.json",
        tied=True,
    ),
    _llama("tiny", 2, (4, 2), 64, 128, 256, 4096, "PageLab's own: a decode step takes 1 ms on a laptop"),
)  # fmt: skip

MODELS = {spec.name: spec for spec in _SPECS}


def get_model(name: str) -> ModelSpec:
    """The preset called `name`. Raises `InputError` that names the nearest known one."""
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
