"""What a side of the playground may be: an allocator, or paging with one thing more."""

from typing import Any

from sim import Config
from sim.alloc import ALLOCATORS
from sim.scopes import applies

MORE: dict[str, dict[str, Any]] = {
    "paged-cache": {"allocator": "paged", "prefix_cache": "hash"},
    "paged-swap": {"allocator": "paged", "preempt": "swap"},
}
NAMES = {
    **{name: name for name in ALLOCATORS},
    "paged-cache": "paged + prefix cache",
    "paged-swap": "paged + swap",
}


def config_of(side: str, dials: dict[str, Any]) -> Config:
    """The side's config. Dials are common to both sides; each takes those that it has a use for.

    Raises InputError as `Config` does.
    """
    own = MORE.get(side, {"allocator": side})
    allocator = own["allocator"]
    given = {name: value for name, value in dials.items() if value is not None and applies(name, allocator)}
    return Config(**{**given, **own})
