"""Options that were given and that no run would look at: refused, rather than ignored in silence."""

from collections.abc import Callable, Iterable

from sim.alloc import RESERVATIONS
from sim.config import Config
from sim.errors import InputError


def refuse_unused(given: Iterable[str], configs: list[Config]) -> None:
    """Raises InputError for the first option of `given` (names of dials) that none of `configs` uses."""
    for name in given:
        if name in UNUSED:
            reasons = [UNUSED[name](config) for config in configs]
            if reasons and all(reasons):
                raise InputError(f"--{name.replace('_', '-')} {reasons[0]}")


def _placement(config: Config) -> str:
    if config.allocator not in ("paged", "virtual"):
        return ""
    return (
        f"with --allocator {config.allocator}: any free block will do, so nothing is placed; "
        "add --allocator max, or drop it"
    )


def _never_preempts(config: Config) -> str:
    if config.allocator not in RESERVATIONS:
        return ""
    return (
        f"with --allocator {config.allocator}: it reserves everything at admission, so nobody is ever "
        "preempted; add --allocator paged, or drop it"
    )


def _prefix_cache(config: Config) -> str:
    if config.allocator == "paged":
        return ""
    return (
        f"with --allocator {config.allocator}: contiguous ranges share nothing; "
        "add --allocator paged, or drop it"
    )


def _hardware(config: Config) -> str:
    if config.timing == "roofline":
        return ""
    return f"with --timing {config.timing}: only roofline asks what a device can do; drop one of them"


# Why a dial is not looked at under a config; "" where it is.
UNUSED: dict[str, Callable[[Config], str]] = {
    "placement": _placement,
    "preempt": _never_preempts,
    "swap_blocks": _never_preempts,
    "victim": _never_preempts,
    "prefix_cache": _prefix_cache,
    "hardware": _hardware,
}
