"""Every dial of a run, in one frozen object. The command line and the app's sidebar are made from it."""

import os
from dataclasses import Field, asdict, dataclass, fields
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
from sim.dials import check_type, dial, flag, words
from sim.errors import InputError, unknown_name
from sim.events import Sink
from sim.hardware import HARDWARE
from sim.models import KV_DTYPES, MODELS, ModelSpec, get_model, parse_bytes
from sim.victims import VICTIMS

PAPER_POOL_TOKENS = 15_728  # OPT-13B on an A100-40GB, paper Table 1: 15.7K slots, 983 blocks of 16
MAX_SLOTS = 2**31 - 1  # means are exact up to here (`sim.series`)
MAX_BLOCKS = 2**25  # the free list and the reference counts of so many take 1.5 GB


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
            self._check_dial(item)
        self._check_timing()
        self._check_counts()
        self._check_combinations()
        self._check_pool()
        if self.placement is None and applies("placement", self.allocator):
            object.__setattr__(self, "placement", "buddy")

    def _check_dial(self, item: Field[Any]) -> None:
        """Its type, its choices, and that the allocator has a use for it."""
        value: Any = getattr(self, item.name)
        choices = item.metadata["choices"]
        if value is None and item.default is None:
            return
        check_type(item, value)
        if choices and value not in choices():
            raise unknown_name(words(item), str(value), choices())
        if value != item.default and not applies(item.name, self.allocator):
            scope = APPLIES_TO[item.name]
            raise InputError(
                f"{flag(item.name)} {value} with --allocator {self.allocator}: {scope.why}; "
                f"drop it, or use --allocator {' or '.join(scope.allocators)}"
            )

    def _check_timing(self) -> None:
        if self.timing in TIMINGS or (os.path.exists(self.timing) and not os.path.isdir(self.timing)):
            return
        raise InputError(f"{unknown_name('timing', self.timing, TIMINGS)}, or a FILE that exists")

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
            options = " and ".join(flag(name) for name in given)
            raise InputError(f"{options}: each sets the size of the pool; give one of them")
        if self.step_rule == "prefill-first" and self.chunked_prefill:
            raise InputError(
                "--step-rule prefill-first with --chunked-prefill: chunks exist to share a step with "
                "decodes, which prefill-first forbids; drop one of them"
            )
        if self.swap_blocks is not None and self.preempt != "swap":
            raise InputError(
                "--swap-blocks without --preempt swap: recompute uses no host memory; add --preempt swap"
            )

    def _check_pool(self) -> None:
        num_tokens, is_paged = self.num_pool_tokens, self.allocator == "paged"
        if num_tokens < 1 or (is_paged and self.num_pool_blocks < 1):
            raise InputError(
                f"pool of {num_tokens} tokens: smaller than one block of {self.block_size}; "
                "give a larger pool or a smaller --block-size"
            )
        if num_tokens > MAX_SLOTS:
            raise InputError(
                f"pool of {num_tokens} tokens: at most {MAX_SLOTS} are counted exactly; give a smaller pool"
            )
        for what, count in (("pool", self.num_pool_blocks), ("host memory", self.num_host_blocks)):
            if is_paged and count > MAX_BLOCKS:
                raise InputError(
                    f"{what} of {count} blocks: at most {MAX_BLOCKS}; give fewer, or a larger --block-size"
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
        if self.placement is not None:
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


def applies(name: str, allocator: str) -> bool:
    """Whether `allocator` has a use for the dial `name`."""
    return name not in APPLIES_TO or allocator in APPLIES_TO[name].allocators


@dataclass(frozen=True, slots=True)
class Scope:
    """Which allocators have a use for a dial, and why the others have none."""

    allocators: tuple[str, ...]
    why: str


_NEVER_PREEMPTED = f"{', '.join(RESERVATIONS)} reserve in full at admission and are never preempted"

APPLIES_TO = {  # every allocator has a use for the other dials
    "placement": Scope(tuple(RESERVATIONS), "its blocks may lie anywhere"),
    "preempt": Scope(("paged",), _NEVER_PREEMPTED),
    "swap_blocks": Scope(("paged",), _NEVER_PREEMPTED),
    "victim": Scope(("paged",), _NEVER_PREEMPTED),
    "prefix_cache": Scope(("paged",), "only whole blocks are found again"),
}
TIMINGS = ("unit", "roofline")
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
