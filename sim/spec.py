"""The shape of a decoder, and the bytes that its weights and its KV cache take.

KV bytes per token = 2 (K and V) x layers x kv heads x bytes of one head's vector. A quantized vector
carries one fp32 scale, so each token and kv head has its own scale for K and its own for V.
"""

from dataclasses import dataclass

from sim.errors import InputError, unknown_name

KV_DTYPES = {"fp16": 2, "bf16": 2, "fp32": 4, "fp8": 1, "int8": 1}  # bytes of one element
QUANTIZED_DTYPES = frozenset({"fp8", "int8"})
SCALE_BYTES = 4  # fp32


def element_bytes(dtype: str) -> int:
    """Bytes of one element, without scales. Raises `InputError` for a dtype that is not in `KV_DTYPES`."""
    if dtype not in KV_DTYPES:
        raise unknown_name("dtype", dtype, KV_DTYPES)
    return KV_DTYPES[dtype]


@dataclass(frozen=True, slots=True)
class RopeScaling:
    """How Llama 3.1 and later stretch rotary positions to longer contexts (`rope_type: llama3`).

    Rotations slower than one turn in `original_positions / low_frequency` tokens are slowed down by
    `factor`, those faster than one in `original_positions / high_frequency` are left, others lie between.
    """

    factor: float
    low_frequency: float
    high_frequency: float
    original_positions: int


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
    rms_epsilon: float = 1e-5  # added to the mean square in RMS norms
    rope_base: float = 10_000.0  # of the rotary positions' wavelengths
    rope_scaling: RopeScaling | None = None
    is_tied: bool = False  # the output projection is the embedding
    has_qkv_bias: bool = False

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


def llama_spec(
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
    head_dim: int | None = None,
    rope_base: float = 10_000.0,
    rope_scaling: RopeScaling | None = None,
    rms_epsilon: float = 1e-5,
) -> ModelSpec:
    """Llama and its kin: rotary positions, grouped queries, SwiGLU (3 matrices), RMS norms.

    `heads` is (query heads, kv heads); `tied` means the output projection is the embedding.
    `head_dim` is hidden / query heads where it is not given.
    """
    num_heads, num_kv_heads = heads
    head_dim = head_dim or hidden // num_heads
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
        rms_epsilon=rms_epsilon,
        rope_base=rope_base,
        rope_scaling=rope_scaling,
        is_tied=tied,
        has_qkv_bias=qkv_bias,
    )
