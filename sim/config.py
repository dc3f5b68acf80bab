"""Every dial of a run, in one frozen object. The command line and the app's sidebar are made from it."""

from dataclasses import asdict, dataclass
from typing import Any

from sim.alloc import ALLOCATORS, BLOCKED, PLACEMENTS, KVAllocator
from sim.bounds import check_dials, check_pool
from sim.cache import EVICTIONS, PREFIX_CACHES
from sim.choices import BATCHING, COMPACTION, PREEMPT, STEP_RULES, TABLES
from sim.combinations import refuse_bad_pairs
from sim.dials import dial
from sim.events import Sink
from sim.hardware import HARDWARE
from sim.horizon import HeavyHitters, Horizon, KeepAll, SlidingWindow
from sim.make import make_allocator
from sim.models import KV_DTYPES, MODELS, ModelSpec, get_model, parse_bytes
from sim.parallel import shard
from sim.refusals import refuse_combinations
from sim.scopes import applies
from sim.victims import VICTIMS

PAPER_POOL_TOKENS = 15_728  # OPT-13B on an A100-40GB, paper Table 1: 15.7K slots, 983 blocks of 16
USUAL_ACCEPTANCE = 0.7


@dataclass(frozen=True, kw_only=True, slots=True)
class Config:
    """How memory is managed, requests are batched and time is modelled.

    Raises InputError, with the value and the remedy, for anything that cannot work or would do nothing.
    """

    allocator: str = dial("paged", "who decides where keys and values go", choices=lambda: list(ALLOCATORS))
    placement: str | None = dial(
        None, "where a contiguous range goes; if not given, buddy", choices=lambda: list(PLACEMENTS)
    )
    pool_tokens: int | None = dial(None, "size of the KV pool", unit="slots")
    pool_blocks: int | None = dial(None, "size of the KV pool in blocks of --block-size", unit="blocks")
    memory: str | None = dial(
        None, "device memory; what the model's weights leave becomes the pool", unit="12GiB"
    )
    block_size: int = dial(16, "tokens in a block", unit="tokens")
    large_block_size: int = dial(128, "tokens in a large block of --allocator mixed", unit="tokens")
    growth: str = dial(
        "double", "how a range of --allocator grow gets longer: double, or by so many slots at a time"
    )
    size_classes: str = dial(
        "pow2", "size classes of --allocator slab: powers of two from --block-size on, or such as 64,512,2048"
    )
    page_size: str = dial(
        "2MiB", "page of --allocator virtual, in each layer's K and V (GPUs have 64KiB to 2MiB)", unit="bytes"
    )
    compaction: str = dial(
        "off", "whether contiguous ranges move together to make room", choices=lambda: list(COMPACTION)
    )
    table: str = dial("flat", "how block tables are kept, for their bytes", choices=lambda: list(TABLES))
    max_len: int = dial(2048, "longest sequence the server accepts", unit="tokens")
    model: str = dial(
        "opt-13b",
        "model whose KV bytes and step times are meant, or the PATH of a .gguf file or safetensors folder",
        choices=lambda: list(MODELS),
    )
    kv_dtype: str = dial("fp16", "type of cached keys and values", choices=lambda: list(KV_DTYPES))
    hardware: str = dial("a100-40gb", "device of the roofline timing", choices=lambda: list(HARDWARE))
    tensor_parallel: int = dial(1, "devices that share each server's model and KV heads")
    batching: str = dial("continuous", "who joins a batch when", choices=lambda: list(BATCHING))
    step_rule: str = dial("mixed", "what one step may run together", choices=lambda: list(STEP_RULES))
    max_seqs: int = dial(256, "sequences that may run at once")
    max_batch_tokens: int | None = dial(
        None, "token budget of one step; if not given, 8192 or --max-len, whichever is more", unit="tokens"
    )
    chunked_prefill: bool = dial(False, "let a prompt be prefilled over several steps")
    watermark: float = dial(0.0, "share of the pool that admissions leave free", unit="0..1")
    preempt: str = dial(
        "recompute", "how a preempted request gives up its memory", choices=lambda: list(PREEMPT)
    )
    swap_blocks: int | None = dial(
        None, "host blocks for --preempt swap; if not given, as many as the pool has"
    )
    victim: str = dial("youngest", "whom to preempt", choices=lambda: list(VICTIMS))
    prefix_cache: str = dial(
        "off", "how finished blocks are found again", choices=lambda: ["off", *PREFIX_CACHES]
    )
    eviction: str | None = dial(
        None, "which cached block goes first; if not given, lru", choices=lambda: list(EVICTIONS)
    )
    window: int | None = dial(
        None, "sliding window: a query reads the last W tokens, its own included", unit="W"
    )
    sinks: int | None = dial(None, "attention sinks: --window also reads the first S tokens", unit="S")
    keep_recent: int | None = dial(
        None, "heavy hitters: a query reads the last R tokens and --keep-heavy older ones", unit="R"
    )
    keep_heavy: int | None = dial(None, "older tokens that --keep-recent keeps: the heaviest H", unit="H")
    speculate: int = dial(0, "speculative decoding: drafts of a decode step", unit="K")
    accept: float | None = dial(
        None, "chance that a draft is right if those before it are; if not given, 0.7", unit="0..1"
    )
    link: str | None = dial(
        None, "bandwidth to host memory, each way; if not given, the hardware's", unit="25GB/s"
    )
    timing: str = dial(
        "roofline", "how long a step takes: unit (1 s), roofline, or a FILE from a calibration"
    )
    seed: int = dial(0, "seed of everything random")

    def __post_init__(self) -> None:
        check_dials(self)
        if self.placement is None and applies("placement", self.allocator):
            object.__setattr__(self, "placement", "buddy")
        refuse_combinations(self)
        refuse_bad_pairs(self)
        shard(self.spec, self.tensor_parallel)  # refuses heads that cannot be dealt out
        check_pool(self)

    @property
    def spec(self) -> ModelSpec:
        """The model's architecture."""
        return get_model(self.model)

    @property
    def rank_spec(self) -> ModelSpec:
        """The model as one rank has it: the whole of it without tensor parallelism."""
        return shard(self.spec, self.tensor_parallel)

    @property
    def num_pool_tokens(self) -> int:
        """Slots of the pool, before a paged one drops those that fill no block; `memory` is one rank's."""
        if self.pool_tokens is not None:
            return self.pool_tokens
        if self.pool_blocks is not None:
            return self.pool_blocks * self.block_size
        if self.memory is not None:
            return self.rank_spec.max_slots(parse_bytes(self.memory), kv_dtype=self.kv_dtype)
        return PAPER_POOL_TOKENS

    @property
    def num_pool_blocks(self) -> int:
        """Whole blocks of the pool."""
        return self.num_pool_tokens // self.block_size

    @property
    def token_budget(self) -> int:
        """Tokens that one step may compute."""
        return self.max_batch_tokens if self.max_batch_tokens is not None else max(8192, self.max_len)

    @property
    def num_host_blocks(self) -> int:
        """Blocks of host memory that swapped requests may fill."""
        if self.preempt != "swap":
            return 0
        return self.num_pool_blocks if self.swap_blocks is None else self.swap_blocks

    @property
    def acceptance(self) -> float:
        """Chance that a draft is right if those before it are."""
        return USUAL_ACCEPTANCE if self.accept is None else self.accept

    @property
    def horizon(self) -> Horizon:
        """Which stored tokens later queries still read."""
        if self.window is not None:
            return SlidingWindow(self.window, self.sinks or 0)
        if self.keep_recent is not None:
            return HeavyHitters(self.keep_recent, self.keep_heavy or 0, self.seed)
        return KeepAll()

    @property
    def page_tokens(self) -> int:
        """Tokens of which a page holds one layer's K (or V), whole ones only."""
        return parse_bytes(self.page_size) // self.spec.kv_bytes_per_tensor(self.kv_dtype)

    @property
    def num_pool_pages(self) -> int:
        """Whole pages of the pool, one in every tensor."""
        pool_bytes = self.num_pool_tokens * self.spec.kv_bytes_per_token(self.kv_dtype)
        return pool_bytes // (self.spec.num_kv_tensors * parse_bytes(self.page_size))

    @property
    def slots_per_block(self) -> int | None:
        """Slots of an entry of a block table; None where a sequence holds a range of any length."""
        if self.allocator in BLOCKED:
            return self.block_size
        return self.page_tokens if self.allocator == "virtual" else None

    @property
    def pool_bytes(self) -> int:
        """Bytes of the slots that sequences can hold."""
        return self.num_slots * self.spec.kv_bytes_per_token(self.kv_dtype)

    def make_allocator(self, log: Sink) -> KVAllocator:
        """The allocator that this config names, with an empty pool."""
        return make_allocator(self, log)

    def as_json(self) -> dict[str, Any]:
        """All dials and what follows from them, for the report."""
        return {
            **asdict(self),
            "num_slots": self.num_slots,
            "token_budget": self.token_budget,
            "kv_bytes_per_token": self.spec.kv_bytes_per_token(self.kv_dtype),
            "kv_bytes_per_token_per_rank": self.rank_spec.kv_bytes_per_token(self.kv_dtype),
        }

    @property
    def num_slots(self) -> int:
        """Slots that sequences can hold."""
        if self.allocator == "virtual":
            return self.num_pool_pages * self.page_tokens
        return self.num_pool_blocks * self.block_size if self.allocator in BLOCKED else self.num_pool_tokens
