"""The measured ledger: what the pool's memory and its table tensor say, never what the allocator counts.

    written    slots that do not hold the sentinel, by a reduction over the pool itself
    held       slots that a row of the table tensor covers
    live       written and held, and seen by a later query: within the kernels' window and sinks, or not
               dropped by the tensor that they read                                     (DESIGN section 7)
    cached     written and held by nobody
    reserved, internal, rounding    the other held ones, by the true output lengths and the ranges
    external, free                  neither held nor written

A slot of several sequences is in one class, the first in this order that any of them gives it. Reading one
element per head keeps a scan far below the cost of reading the pool.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from engine.attend import Reading
from engine.holdings import Holdings
from engine.holes import Stranding
from engine.snapshot import Tables
from sim.events import Event, Kind
from sim.ledger import Ledger
from sim.request import Request
from sim.tables import BlockTable

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Faults:
    """What a pool must never show. All zero in a sound run."""

    torn: int  # slots written in some layers, heads, keys or values, but not in all
    stray: int  # slots written that no row holds and no cache was told to keep
    gaps: int  # slots of a row that are empty though a later position of it is written
    shared: int  # table entries with two owners that no memory event made owners of one block
    first_slot: int | None  # the lowest slot that is torn, stray or in a gap

    @property
    def are_none(self) -> bool:
        """Whether the pool is as it must be."""
        return self.torn == self.stray == self.gaps == self.shared == 0


@dataclass(frozen=True, slots=True)
class Observation:
    """One step as it was seen in memory, after its writes and the copies that follow them."""

    step: int
    seconds: float  # measured, of the step's real work
    ledger: Ledger
    faults: Faults
    tables: Tables  # read back from the table tensor
    num_written: dict[str, int]  # of each sequence: one more than the highest position written in its row
    written_bits: NDArray[np.uint8]  # np.packbits of [num_slots]

    @property
    def block_tables(self) -> dict[str, BlockTable]:
        """Each sequence's block table or range."""
        return self.tables.as_dict()

    def written(self) -> Mask:
        """Which slots hold keys and values: bool [num_slots]."""
        return np.unpackbits(self.written_bits, count=self.ledger.pool).astype(np.bool_)


class Observable(Protocol):
    """A pool, seen from outside."""

    num_slots: int

    @property
    def rows(self) -> Mapping[str, int]:
        """The table row of each sequence that holds memory."""
        ...

    def scan(self) -> tuple[Mask, Mask]:
        """Reads the pool on its device. bool [num_slots] each: written (the first head's keys in the first
        layer do not hold the sentinel), and torn (some heads, layers, keys or values do and others do not).
        """
        ...

    def holdings(self) -> Holdings:
        """Who holds each slot, from the table tensor."""
        ...

    def cached_slots(self) -> Mask:
        """Slots that may be written though nobody holds them: bool [num_slots]."""
        ...

    def snapshot(self) -> Tables:
        """All rows, read back from the table tensor."""
        ...


class Probe:
    """Takes an `Observation` after each step. As an observer it may know the true output lengths.

    `num_known` says how many tokens of a sequence are known, those of the prompt included.
    """

    def __init__(
        self,
        pool: Observable,
        requests: Mapping[str, Request],
        stranding: Stranding,
        *,
        num_known: Callable[[Request], int],
        reading: Reading,
    ) -> None:
        self._pool = pool
        self._requests = requests
        self._stranding = stranding
        self._num_known = num_known
        self._reading = reading
        self._waiting: deque[str] = deque()
        self._final = {name: request.final_tokens for request in requests.values() for name in names(request)}

    def note(self, event: Event) -> None:
        """Follows who waits, in order: only the head of `waiting` makes free slots external."""
        self._stranding.note(event)
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
        holdings, rows = self._pool.holdings(), self._pool.rows
        extents = holdings.extents(written)
        return Observation(
            step=step,
            seconds=seconds,
            ledger=self._ledger(written, holdings, extents),
            faults=find_faults(written, torn, holdings, extents, self._pool.cached_slots()),
            tables=self._pool.snapshot(),
            num_written={name: int(extents[row]) for name, row in rows.items()},
            written_bits=np.packbits(written),
        )

    def count_free(self) -> int:
        """Slots that nobody holds, and that hold the sentinel in every vector or are kept by the cache."""
        written, torn = self._pool.scan()
        is_available = ~(written | torn) | self._pool.cached_slots()
        return int((is_available & ~self._pool.holdings().is_held).sum())

    def _ledger(self, written: Mask, holdings: Holdings, extents: NDArray[np.int64]) -> Ledger:
        final = np.zeros_like(extents)
        for name, row in self._pool.rows.items():
            # A row of a request that this run does not know was leaked by an earlier one: it fills nothing.
            final[row] = self._final.get(name, 0)
        row, position = holdings.row, holdings.position
        is_asked = position < holdings.num_asked[row]
        will_fill = position < final[row]
        if not holdings.fills_rounding:
            will_fill &= is_asked
        held = holdings.is_held
        live = held & written & holdings.mask(self._is_read(holdings, extents))
        reserved = ~written & holdings.mask(will_fill)
        internal = (written | holdings.mask(is_asked)) & held & ~live & ~reserved
        num_held, num_cached = int(held.sum()), int((written & ~held).sum())
        free = ~held & ~written
        num_free = int(free.sum())
        num_external = num_free if num_free and self._is_stranded(free) else 0
        num_live, num_reserved, num_internal = int(live.sum()), int(reserved.sum()), int(internal.sum())
        return Ledger(
            pool=self._pool.num_slots,
            live=num_live,
            reserved=num_reserved,
            internal=num_internal,
            rounding=num_held - num_live - num_reserved - num_internal,
            cached=num_cached,
            external=num_external,
            free=num_free - num_external,
        )

    def _is_read(self, holdings: Holdings, extents: NDArray[np.int64]) -> Mask:
        """Entries that the next query of their row, or a later one, reads."""
        window, sinks, until = self._reading.window, self._reading.sinks, self._reading.seen_until
        row, position = holdings.row, holdings.position
        if until is not None:  # what the kernels are told; past its end nothing is written
            last = until.cpu().numpy()
            return last[row, np.minimum(position, last.shape[1] - 1)] >= extents[row]
        if window is None:
            return np.ones(len(position), dtype=np.bool_)
        return (position > extents[holdings.row] - window) | (position < sinks)

    def _is_stranded(self, is_free: Mask) -> bool:
        if not self._waiting:
            return False
        head = self._requests[self._waiting[0]]
        return self._stranding.is_stranded(head, self._num_known(head), is_free)


def find_faults(
    written: Mask, torn: Mask, holdings: Holdings, extents: NDArray[np.int64], may_be_cached: Mask
) -> Faults:
    """A row is written from position 0 up to its highest written one, holes aside."""
    is_stray = written & ~holdings.is_held & ~may_be_cached
    is_gap = ~written & holdings.mask(holdings.position < extents[holdings.row])
    wrong = np.flatnonzero(torn | is_stray | is_gap)
    return Faults(
        torn=int(torn.sum()),
        stray=int(is_stray.sum()),
        gaps=int(is_gap.sum()),
        shared=holdings.num_shared,
        first_slot=int(wrong[0]) if len(wrong) else None,
    )


def names(request: Request) -> list[str]:
    """The names of a request's sequences (`sim.request.Sequence.name`)."""
    width = request.width
    return [request.id] if width == 1 else [f"{request.id}/{index}" for index in range(width)]


def _id(event: Event) -> str:
    assert event.request is not None
    return event.request
