"""Which dials do not go together, and why. Nothing that was asked for is silently ignored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim.errors import InputError
from sim.models import parse_bytes

if TYPE_CHECKING:
    from sim.config import Config


def refuse_bad_pairs(config: Config) -> None:
    """Raises InputError when an allocator's own dial does not fit another; names both and the reason."""
    for name, check in (
        ("mixed", _check_large_blocks),
        ("grow", _check_growth),
        ("slab", _check_size_classes),
        ("virtual", _check_pages),
    ):
        if config.allocator == name:
            check(config)


def _check_large_blocks(config: Config) -> None:
    large, small = config.large_block_size, config.block_size
    if large % small or large <= small:
        raise InputError(
            f"--large-block-size {large} with --block-size {small}: a large block is a run of at least two "
            f"whole small ones; use {2 * small} or another multiple"
        )


def _check_growth(config: Config) -> None:
    growth = config.growth
    if growth != "double" and not (growth.isdecimal() and int(growth) >= 1):
        raise InputError(f"growth {growth!r}: must be double, or a number of slots (such as 256)")


def _check_size_classes(config: Config) -> None:
    text = config.size_classes
    if text == "pow2":
        return
    parts = [part.strip() for part in text.split(",")]
    classes = [int(part) for part in parts if part.isdecimal()]
    if len(classes) < len(parts) or classes != sorted({*classes}) or classes[0] < 1:
        raise InputError(f"size classes {text!r}: must be pow2, or rising sizes such as 64,512,2048")
    if classes[-1] < config.max_len:
        raise InputError(
            f"--size-classes {text} with --max-len {config.max_len}: the largest class must hold the longest "
            f"sequence; add {config.max_len}, or lower --max-len"
        )
    if config.placement == "buddy" and any(size & (size - 1) for size in classes):
        raise InputError(
            f"--size-classes {text} with --placement buddy: buddy hands out powers of two, and slabs of "
            "other sizes would leave slots that nobody can have; use powers of two, or --placement first-fit"
        )


def _check_pages(config: Config) -> None:
    page_bytes, needed = parse_bytes(config.page_size), config.spec.kv_bytes_per_tensor(config.kv_dtype)
    if page_bytes < needed:
        raise InputError(
            f"--page-size {config.page_size} with --model {config.model}: one token takes {needed} bytes in "
            "one layer's K, and a page must hold one; use a larger page"
        )
