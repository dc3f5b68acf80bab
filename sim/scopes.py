"""Which allocators have a use for a dial. A dial that would do nothing is refused, with the reason."""

from dataclasses import dataclass

from sim.alloc import ALLOCATORS, BLOCKED, RANGED, RESERVATIONS


@dataclass(frozen=True, slots=True)
class Scope:
    """The allocators that have a use for a dial, and why the others have none."""

    allocators: tuple[str, ...]
    why: str


_SWAPPED = Scope(
    BLOCKED, "only blocks go to host memory; ranges and pages are recomputed, or never preempted"
)
_CACHED = Scope(BLOCKED, "a prefix is shared block by block, and here each sequence has addresses of its own")
_DROPPED = Scope(("paged",), "only blocks can be given back one by one")
_DRAFTED = Scope(("paged",), "drafts take blocks on demand")

APPLIES_TO = {  # every allocator has a use for the other dials
    "placement": Scope(RANGED, "its blocks or pages may lie anywhere"),
    "preempt": _SWAPPED,
    "swap_blocks": _SWAPPED,
    "link": _SWAPPED,
    "victim": Scope(
        tuple(name for name in ALLOCATORS if name not in RESERVATIONS),
        f"{', '.join(RESERVATIONS)} reserve in full at admission and are never preempted",
    ),
    "prefix_cache": _CACHED,
    "eviction": _CACHED,
    "window": _DROPPED,
    "sinks": _DROPPED,
    "keep_recent": _DROPPED,
    "keep_heavy": _DROPPED,
    "speculate": _DRAFTED,
    "accept": _DRAFTED,
    "large_block_size": Scope(("mixed",), "it has blocks of one size"),
    "growth": Scope(("grow",), "its ranges do not get longer by steps"),
    "size_classes": Scope(("slab",), "it has no size classes"),
    "page_size": Scope(("virtual",), "it has no pages"),
    "compaction": Scope(
        (*RESERVATIONS, "grow"),
        "blocks and pages go anywhere, and the chunks of a slab cannot leave its grid",
    ),
    "table": Scope(
        BLOCKED, "a range has one entry, and pages are kept by the GPU: there is no block table to split"
    ),
}


def applies(name: str, allocator: str) -> bool:
    """Whether `allocator` has a use for the dial `name`."""
    return name not in APPLIES_TO or allocator in APPLIES_TO[name].allocators
