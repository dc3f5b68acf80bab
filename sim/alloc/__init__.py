"""Allocators: who holds which slots. `ALLOCATORS` and `PLACEMENTS` name every variant."""

from collections.abc import Callable
from functools import partial

from sim.alloc.blocks import BlockPool
from sim.alloc.buddy import BuddyPlacement
from sim.alloc.contiguous import RESERVATIONS, ContiguousAllocator
from sim.alloc.paged import PagedAllocator
from sim.alloc.placement import FitPlacement, Placement, best_fit, first_fit, next_fit, worst_fit
from sim.alloc.protocol import GRANTED, Granted, KVAllocator, Short, Traffic, Usage

PLACEMENTS: dict[str, Callable[[int], Placement]] = {
    "buddy": BuddyPlacement,
    "first-fit": partial(FitPlacement, choose=first_fit),
    "best-fit": partial(FitPlacement, choose=best_fit),
    "next-fit": partial(FitPlacement, choose=next_fit),
    "worst-fit": partial(FitPlacement, choose=worst_fit),
}

ALLOCATORS = (*RESERVATIONS, "paged")

__all__ = [
    "ALLOCATORS",
    "GRANTED",
    "PLACEMENTS",
    "RESERVATIONS",
    "BlockPool",
    "ContiguousAllocator",
    "Granted",
    "KVAllocator",
    "PagedAllocator",
    "Placement",
    "Short",
    "Traffic",
    "Usage",
]
