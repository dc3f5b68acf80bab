"""The measured ledger: what the pool's memory and its table tensor say, never what the allocator counts.

    written    slots that do not hold the sentinel, by a reduction over the pool itself
    held       slots that a row of the table tensor covers
    live       all written slots                                       (DESIGN section 7)
    reserved, internal, rounding    held and not written, split by the true output lengths and the ranges
    external, free                  neither held nor written

Reading one element per head keeps a scan far below the cost of reading the pool.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from engine.holes import Stranding
from sim.events import Event, Kind
from sim.ledger import Ledger
from sim.replay import BlockTable
from sim.request import Request

EMPTY = -1  # in a table tensor: no block, no range


@dataclass(frozen=True, slots=True)
class Holdings:
    """The table tensor turned around: who holds each slot."""

    owner: NDArray[np.int64]  # [num_slots] table row, EMPTY if none
    position: NDArray[np.int64]  # [num_slots] token position in that row
    num_reserved: NDArray[np.int64]  # [max_rows] slots that the row's owner asked for
    num_shared: int  # slots or blocks that stand in more than one place


@dataclass(frozen=True, slots=True)
class Faults:
    """What a pool must never show. All zero in a sound run."""

    torn: int  # slots written in some layers, heads, keys or values, but not in all
    stray: int  # slots written that no row holds
    gaps: int  # slots of a row whose position is not in line with a prefix written from position 0
    shared: int  # table entries with two owners
    first_slot: int | None  # the lowest slot that is torn, stray or in a gap

    @property
    def are_none(self) -> bool:
        """Whether the pool is as it must be."""
        return self.torn == self.stray == self.gaps == self.shared == 0


@dataclass(frozen=True, slots=True)
class Observation:
    """One step as it was seen in memory, after its writes."""

    step: int
    seconds: float  # measured, of the step's real work
    ledger: Ledger
    faults: Faults
    block_tables: dict[str, BlockTable]  # read back from the table tensor
    num_written: dict[str, int]  # slots written in each request's row
    written_bits: NDArray[np.uint8]  # np.packbits of [num_slots]

    def written(self) -> NDArray[np.bool_]:
        """Which slots hold keys and values: bool [num_slots]."""
        return np.unpackbits(self.written_bits, count=self.ledger.pool).astype(np.bool_)


class Observable(Protocol):
    """A pool, seen from outside."""

    num_slots: int

    @property
    def rows(self) -> dict[str, int]:
        """The table row of each request that holds memory."""
        ...

    def scan(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Reads the pool on its device. bool [num_slots] each: written (the first head's keys in the first
        layer do not hold the sentinel), and torn (some heads, layers, keys or values do and others do not).
        """
        ...

    def holdings(self) -> Holdings:
        """Who holds each slot, from the table tensor."""
        ...

    def block_tables(self) -> dict[str, BlockTable]:
        """Each request's row, read back from the table tensor."""
        ...


class Probe:
    """Takes an `Observation` after each step. As an observer it may know the true output lengths."""

    def __init__(self, pool: Observable, requests: Mapping[str, Request], stranding: Stranding) -> None:
        self._pool = pool
        self._requests = requests
        self._stranding = stranding
        self._waiting: deque[str] = deque()

    def note(self, event: Event) -> None:
        """Follows who waits, in order: only the head of `waiting` makes free slots external."""
        match event.kind:
            case Kind.ARRIVE:
                self._waiting.append(_id(event))
            case Kind.REJECT | Kind.ADMIT:
                self._waiting.remove(_id(event))
            case Kind.PREEMPT if event.changes["mode"] == "recompute":
                self._waiting.appendleft(_id(event))
            case _:
                pass

    def observe(self, step: int, seconds: float) -> Observation:
        """Reads the pool and its table tensor as they are now."""
        written, torn = self._pool.scan()
        holdings = self._pool.holdings()
        owners = holdings.owner[written & (holdings.owner != EMPTY)]
        num_written = np.bincount(owners, minlength=len(holdings.num_reserved))
        return Observation(
            step=step,
            seconds=seconds,
            ledger=self._ledger(written, holdings),
            faults=find_faults(written, torn, holdings, num_written),
            block_tables=self._pool.block_tables(),
            num_written={request: int(num_written[row]) for request, row in self._pool.rows.items()},
            written_bits=np.packbits(written),
        )

    def count_free(self) -> int:
        """Slots that hold the sentinel in every vector and stand in no table row."""
        written, torn = self._pool.scan()
        is_empty = ~(written | torn)
        return int((is_empty & (self._pool.holdings().owner == EMPTY)).sum())

    def _ledger(self, written: NDArray[np.bool_], holdings: Holdings) -> Ledger:
        is_held = holdings.owner != EMPTY
        final = np.zeros_like(holdings.num_reserved)
        for request, row in self._pool.rows.items():
            # A row of a request that this run does not know was leaked by an earlier one: it fills nothing.
            final[row] = self._requests[request].final_tokens if request in self._requests else 0
        empty = np.flatnonzero(is_held & ~written)
        owner, position = holdings.owner[empty], holdings.position[empty]
        is_asked_for = position < holdings.num_reserved[owner]
        num_asked_for = int(is_asked_for.sum())
        num_reserved = int((is_asked_for & (position < final[owner])).sum())
        is_free = ~is_held & ~written
        num_free = int(is_free.sum())
        head = self._requests[self._waiting[0]] if self._waiting else None
        num_external = num_free if head and self._stranding.is_stranded(head, is_free) else 0
        return Ledger(
            pool=self._pool.num_slots,
            live=int(written.sum()),
            reserved=num_reserved,
            internal=num_asked_for - num_reserved,
            rounding=len(empty) - num_asked_for,
            cached=0,
            external=num_external,
            free=num_free - num_external,
        )


def find_faults(
    written: NDArray[np.bool_], torn: NDArray[np.bool_], holdings: Holdings, num_written: NDArray[np.int64]
) -> Faults:
    """A row is written as a prefix: its positions [0, num_written) and no other."""
    is_held = holdings.owner != EMPTY
    is_stray = written & ~is_held
    is_gap = is_held & (written != (holdings.position < num_written[holdings.owner]))
    wrong = np.flatnonzero(torn | is_stray | is_gap)
    return Faults(
        torn=int(torn.sum()),
        stray=int(is_stray.sum()),
        gaps=int(is_gap.sum()),
        shared=holdings.num_shared,
        first_slot=int(wrong[0]) if len(wrong) else None,
    )


def _id(event: Event) -> str:
    assert event.request is not None
    return event.request
