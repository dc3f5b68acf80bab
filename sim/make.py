"""From a config to the allocator that it names."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sim.alloc import (
    PLACEMENTS,
    RESERVATIONS,
    ContiguousAllocator,
    GrowingAllocator,
    KVAllocator,
    PagedAllocator,
    SlabPlacement,
    TableShape,
    VirtualAllocator,
    by_step,
    double,
    exactly,
)
from sim.cache import PREFIX_CACHES
from sim.events import Sink

if TYPE_CHECKING:
    from sim.config import Config


def make_allocator(config: Config, log: Sink) -> KVAllocator:
    """The allocator of `config`, with an empty pool. Its memory events go to `log`."""
    if config.allocator in RESERVATIONS:
        return _reserving(config, log)
    return _MAKERS[config.allocator](config, log)


def size_classes(config: Config) -> list[int]:
    """Sizes of slab chunks, smallest first; the last one holds the longest sequence."""
    if config.size_classes != "pow2":
        return [int(size) for size in config.size_classes.split(",")]
    classes = [1 << (config.block_size - 1).bit_length()]
    while classes[-1] < config.max_len:
        classes.append(2 * classes[-1])
    return classes


def _reserving(config: Config, log: Sink) -> KVAllocator:
    return ContiguousAllocator(
        config.num_slots,
        config.allocator,
        PLACEMENTS[config.placement or "buddy"](config.num_slots),
        config.max_len,
        log,
        config.watermark,
        compacts=config.compaction == "on-shortage",
    )


def _grow(config: Config, log: Sink) -> KVAllocator:
    return GrowingAllocator(
        config.num_slots,
        double if config.growth == "double" else by_step(int(config.growth)),
        PLACEMENTS[config.placement or "buddy"](config.num_slots),
        config.max_len,
        log,
        config.watermark,
        compacts=config.compaction == "on-shortage",
    )


def _slab(config: Config, log: Sink) -> KVAllocator:
    slabs = SlabPlacement(PLACEMENTS[config.placement or "buddy"](config.num_slots), size_classes(config))
    return GrowingAllocator(config.num_slots, exactly, slabs, config.max_len, log, config.watermark)


def table_shape(config: Config) -> TableShape:
    """What the block tables of `config` take."""
    return TableShape(
        max_blocks=-(-config.max_len // config.block_size),
        is_two_level=config.table == "two-level",
        run_blocks=_run_blocks(config),
    )


def _run_blocks(config: Config) -> int:
    return config.large_block_size // config.block_size if config.allocator == "mixed" else 1


def _paged(config: Config, log: Sink) -> KVAllocator:
    return PagedAllocator(
        config.num_pool_blocks,
        config.block_size,
        log,
        num_host_blocks=config.num_host_blocks,
        watermark=config.watermark,
        cache=None if config.prefix_cache == "off" else PREFIX_CACHES[config.prefix_cache](),
        eviction=config.eviction or "lru",
        horizon=config.horizon,
        max_chunk=config.token_budget if config.chunked_prefill else None,
        run_blocks=_run_blocks(config),
        table_shape=table_shape(config),
    )


def _virtual(config: Config, log: Sink) -> KVAllocator:
    return VirtualAllocator(
        config.num_pool_pages, config.page_tokens, config.spec.num_kv_tensors, log, config.watermark
    )


_MAKERS: dict[str, Callable[[Config, Sink], KVAllocator]] = {
    "grow": _grow,
    "slab": _slab,
    "paged": _paged,
    "mixed": _paged,
    "virtual": _virtual,
}
