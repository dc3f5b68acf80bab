"""Allocators: who holds which slots. `ALLOCATORS` and `PLACEMENTS` name every variant."""

from collections.abc import Callable
from functools import partial

from sim.alloc.blocks import BlockPool
from sim.alloc.buddy import BuddyPlacement
from sim.alloc.contiguous import RESERVATIONS, ContiguousAllocator
from sim.alloc.growing import GrowingAllocator, by_step, double, exactly
from sim.alloc.paged import PagedAllocator
from sim.alloc.placement import FitPlacement, Placement, best_fit, first_fit, next_fit, worst_fit
from sim.alloc.protocol import GRANTED, Granted, KVAllocator, Short, Traffic, Usage
from sim.alloc.slabs import SlabPlacement
from sim.alloc.tables import TableShape
from sim.alloc.virtual import VirtualAllocator

PLACEMENTS: dict[str, Callable[[int], Placement]] = {
    "buddy": BuddyPlacement,
    "first-fit": partial(FitPlacement, choose=first_fit),
    "best-fit": partial(FitPlacement, choose=best_fit),
    "next-fit": partial(FitPlacement, choose=next_fit),
    "worst-fit": partial(FitPlacement, choose=worst_fit),
}

RANGED = (*RESERVATIONS, "grow", "slab")  # a sequence holds one range of slots
BLOCKED = ("paged", "mixed")  # a sequence holds blocks, which it may share
ALLOCATORS = (*RANGED, *BLOCKED, "virtual")

__all__ = [
    "ALLOCATORS",
    "BLOCKED",
    "GRANTED",
    "PLACEMENTS",
    "RANGED",
    "RESERVATIONS",
    "BlockPool",
    "ContiguousAllocator",
    "Granted",
    "GrowingAllocator",
    "KVAllocator",
    "PagedAllocator",
    "Placement",
    "Short",
    "SlabPlacement",
    "TableShape",
    "Traffic",
    "Usage",
    "VirtualAllocator",
    "by_step",
    "double",
    "exactly",
]
