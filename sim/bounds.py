"""What each dial may be by itself, and how large a pool may be. Pairs of dials are in `sim.refusals`."""

from __future__ import annotations

import os
from dataclasses import Field, fields
from typing import TYPE_CHECKING, Any

from sim.alloc import BLOCKED
from sim.choices import TIMINGS
from sim.dials import check_type, flag, words
from sim.errors import InputError, unknown_name
from sim.model_files import is_model_path
from sim.models import parse_rate
from sim.scopes import APPLIES_TO, applies

if TYPE_CHECKING:
    from sim.config import Config

LEAST = {  # smallest value of a count
    "block_size": 1, "max_len": 1, "max_seqs": 1, "pool_tokens": 1, "pool_blocks": 1, "max_batch_tokens": 1,
    "tensor_parallel": 1, "window": 1, "keep_recent": 1,
    "swap_blocks": 0, "sinks": 0, "keep_heavy": 0, "speculate": 0, "seed": 0,
}  # fmt: skip
MAX_SLOTS = 2**31 - 1  # means are exact up to here (`sim.series`)
MAX_BLOCKS = 2**25  # the free list and the reference counts of so many take 1.5 GB


def check_dials(config: Config) -> None:
    """Raises InputError for the first dial that cannot have its value, with the remedy."""
    for item in fields(config):
        _check_dial(item, getattr(config, item.name), config.allocator)
    if not 0.0 <= config.watermark < 1.0:
        raise InputError(
            f"watermark {config.watermark}: a share of the pool, at least 0 and below 1 (0.01 is usual)"
        )
    if config.accept is not None and not 0.0 <= config.accept <= 1.0:
        raise InputError(f"accept {config.accept}: a probability, from 0 to 1 (0.7 is usual)")
    if config.link is not None:
        parse_rate(config.link)
    is_file = os.path.exists(config.timing) and not os.path.isdir(config.timing)
    if config.timing not in TIMINGS and not is_file:
        raise InputError(f"{unknown_name('timing', config.timing, TIMINGS)}, or a FILE that exists")


def _check_dial(item: Field[Any], value: Any, allocator: str) -> None:
    """Its type, its choices, its smallest value, and that the allocator has a use for it."""
    choices = item.metadata["choices"]
    if value is None and item.default is None:
        return
    check_type(item, value)
    if choices and value not in choices() and not (item.name == "model" and is_model_path(str(value))):
        raise unknown_name(words(item), str(value), choices())
    if value != item.default and not applies(item.name, allocator):
        scope = APPLIES_TO[item.name]
        raise InputError(
            f"{flag(item.name)} {value} with --allocator {allocator}: {scope.why}; "
            f"drop it, or use --allocator {' or '.join(scope.allocators)}"
        )
    if item.name in LEAST and value is not None and value < (least := LEAST[item.name]):
        usual = " (16 is usual)" if item.name == "block_size" else ""
        raise InputError(f"{words(item)} {value}: must be at least {least}{usual}")


def check_pool(config: Config) -> None:
    """Raises InputError for a pool that holds nothing, or more than can be counted."""
    num_tokens = config.num_pool_tokens
    if config.num_slots < 1:
        unit, name = ("page", "--page-size") if config.allocator == "virtual" else ("block", "--block-size")
        raise InputError(
            f"pool of {num_tokens} tokens: smaller than one {unit} of {config.slots_per_block}; "
            f"give a larger pool or a smaller {name}"
        )
    if num_tokens > MAX_SLOTS:
        raise InputError(
            f"pool of {num_tokens} tokens: at most {MAX_SLOTS} are counted exactly; give a smaller pool"
        )
    for what, count in (("pool", config.num_pool_blocks), ("host memory", config.num_host_blocks)):
        if config.allocator in BLOCKED and count > MAX_BLOCKS:
            raise InputError(
                f"{what} of {count} blocks: at most {MAX_BLOCKS}; give fewer, or a larger --block-size"
            )
