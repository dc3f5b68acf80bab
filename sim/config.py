"""Every dial of a run, in one frozen object. The command line and the app's sidebar are made from it."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from sim.alloc import (
    ALLOCATORS,
    PLACEMENTS,
    RESERVATIONS,
    ContiguousAllocator,
    KVAllocator,
    PagedAllocator,
)
from sim.cache import PREFIX_CACHES
from sim.errors import InputError, unknown_name
from sim.events import Sink
from sim.hardware import HARDWARE
from sim.models import KV_DTYPES, MODELS, ModelSpec, get_model, parse_bytes
from sim.victims import VICTIMS

PAPER_POOL_TOKENS = 15_728  # OPT-13B on an A100-40GB, paper Table 1: 15.7K slots, 983 blocks of 16


def dial(default: Any, help: str, *, choices: Callable[[], list[str]] | None = None, unit: str = "") -> Any:
    """A config field with what the command line and the sidebar need to show it."""
    return field(default=default, metadata={"help": help, "choices": choices, "unit": unit})


@dataclass(frozen=True, kw_only=True, slots=True)
class Config:
    """How memory is managed, requests are batched and time is modelled.

    Raises InputError, with the value and the remedy, for anything that cannot work.
    """

    allocator: str = dial("paged", "who decides where keys and values go", choices=lambda: list(ALLOCATORS))
    placement: str = dial("buddy", "where a contiguous range goes", choices=lambda: list(PLACEMENTS))
    pool_tokens: int | None = dial(None, "size of the KV pool", unit="slots")
    pool_blocks: int | None = dial(None, "size of the KV pool in blocks of --block-size", unit="blocks")
    memory: str | None = dial(
        None, "device memory; what the model's weights leave becomes the pool", unit="12GiB"
    )
    block_size: int = dial(16, "tokens in a block", unit="tokens")
    max_len: int = dial(2048, "longest sequence the server accepts", unit="tokens")
    model: str = dial(
        "opt-13b", "model whose KV bytes and step times are meant", choices=lambda: list(MODELS)
    )
    kv_dtype: str = dial("fp16", "type of cached keys and values", choices=lambda: list(KV_DTYPES))
    hardware: str = dial("a100-40gb", "device of the roofline timing", choices=lambda: list(HARDWARE))
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
    timing: str = dial(
        "roofline", "how long a step takes: unit (1 s), roofline, or a FILE from a calibration"
    )
    seed: int = dial(0, "seed of everything random")

    def __post_init__(self) -> None:
        for item in fields(self):
            choices = item.metadata["choices"]
            if choices and getattr(self, item.name) not in choices():
                raise unknown_name(item.name.replace("_", " "), str(getattr(self, item.name)), choices())
        self._check_counts()
        self._check_combinations()
        if self.num_pool_tokens < 1 or (self.allocator == "paged" and self.num_pool_blocks < 1):
            raise InputError(
                f"pool of {self.num_pool_tokens} tokens: smaller than one block of {self.block_size}; "
                "give a larger pool or a smaller --block-size"
            )

    def _check_counts(self) -> None:
        at_least_one = ("block_size", "max_len", "max_seqs", "pool_tokens", "pool_blocks", "max_batch_tokens")
        for name, least in [*((name, 1) for name in at_least_one), ("swap_blocks", 0)]:
            value = getattr(self, name)
            if value is not None and value < least:
                usual = " (16 is usual)" if name == "block_size" else ""
                raise InputError(f"{name.replace('_', ' ')} {value}: must be at least {least}{usual}")
        if not 0.0 <= self.watermark < 1.0:
            raise InputError(
                f"watermark {self.watermark}: a share of the pool, at least 0 and below 1 (0.01 is usual)"
            )

    def _check_combinations(self) -> None:
        given = [name for name in ("pool_tokens", "pool_blocks", "memory") if getattr(self, name) is not None]
        if len(given) > 1:
            options = " and ".join("--" + name.replace("_", "-") for name in given)
            raise InputError(f"{options}: each sets the size of the pool; give one of them")
        if self.step_rule == "prefill-first" and self.chunked_prefill:
            raise InputError(
                "--step-rule prefill-first with --chunked-prefill: chunks exist to share a step with decodes, "
                "which prefill-first forbids; drop one of them"
            )
        if self.swap_blocks is not None and self.preempt != "swap":
            raise InputError(
                "--swap-blocks without --preempt swap: recompute uses no host memory; add --preempt swap"
            )

    @property
    def spec(self) -> ModelSpec:
        """The model's architecture."""
        return get_model(self.model)

    @property
    def num_pool_tokens(self) -> int:
        """Slots of the pool, before a paged one drops those that fill no block."""
        if self.pool_tokens is not None:
            return self.pool_tokens
        if self.pool_blocks is not None:
            return self.pool_blocks * self.block_size
        if self.memory is not None:
            return self.spec.max_slots(parse_bytes(self.memory), kv_dtype=self.kv_dtype)
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

    def make_allocator(self, log: Sink) -> KVAllocator:
        """The allocator that this config names, with an empty pool."""
        if self.allocator in RESERVATIONS:
            placement = PLACEMENTS[self.placement](self.num_pool_tokens)
            return ContiguousAllocator(
                self.num_pool_tokens, self.allocator, placement, self.max_len, log, watermark=self.watermark
            )
        return PagedAllocator(
            self.num_pool_blocks,
            self.block_size,
            log,
            num_host_blocks=self.num_host_blocks,
            watermark=self.watermark,
            cache=None if self.prefix_cache == "off" else PREFIX_CACHES[self.prefix_cache](),
        )

    def as_json(self) -> dict[str, Any]:
        """All dials and what follows from them, for the report."""
        derived = {"num_slots": self.num_slots, "token_budget": self.token_budget}
        return {**asdict(self), **derived, "kv_bytes_per_token": self.spec.kv_bytes_per_token(self.kv_dtype)}

    @property
    def num_slots(self) -> int:
        """Slots that sequences can hold."""
        return self.num_pool_blocks * self.block_size if self.allocator == "paged" else self.num_pool_tokens


BATCHING = {
    "continuous": "requests join and leave at every step (Orca, vLLM)",
    "static": "a batch is filled, then runs until its last member has ended",
    "sequential": "one request at a time",
}
STEP_RULES = {
    "mixed": "prefills and decodes share a step (vLLM v1)",
    "prefill-first": "a step that admits prompts runs only prompts (vLLM 0.1 to 0.7)",
}
PREEMPT = {
    "recompute": "drop the blocks, prefill again later",
    "swap": "move the blocks to host memory and back",
}
