"""The series of a run that leapt: every column is folded from the journal when somebody asks for it.

All arrays are int64. Those of spans are [spans]; columns are [steps]. A long run has millions of steps, so
what is added up is added up in place.
"""

from abc import abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.clock import PS_PER_S, all_to_s
from sim.leap.journal import Journal
from sim.ledger import CLASSES
from sim.series import StepTable, exact_dot

Ints = NDArray[np.int64]


class LeapSeries(StepTable):
    """What all allocators have in common."""

    def __init__(
        self, journal: Journal, durations_ps: Ints, arrivals_ps: list[int], final: Ints, num_slots: int
    ) -> None:
        self._journal = journal
        self._durations_ps = durations_ps
        self._arrivals_ps = arrivals_ps  # by index
        self._num_slots = num_slots
        self._sequences = as_ints(journal.sequences)
        self._firsts = as_ints(journal.firsts)
        self._ends = as_ints(journal.ends)
        self._stored = as_ints(journal.stored)  # after the first step of a span
        self._final = final[self._sequences]  # what its sequence stores in the end
        self._columns: dict[str, Callable[[], NDArray[Any]]] = {
            "step": lambda: np.arange(1, len(self) + 1),
            "time": lambda: all_to_s(self.ends_ps()),
            "duration": lambda: self._durations_ps / PS_PER_S,
            "duration_ps": lambda: self._durations_ps,
            "batch": self._batch,
            "tokens": self._tokens,
            "running": self.running,
            "waiting": self.waiting,
            "swapped": lambda: self._balance(journal.swapped_out, journal.swapped_in),
            "pool": lambda: np.full(len(self), num_slots),
            "live": self.live,
            "reserved": self.reserved,
            "internal": self.internal,
            "rounding": self.rounding,
            "cached": lambda: np.zeros(len(self), dtype=np.int64),
            "external": lambda: np.where(self.is_stranded(), self.available(), 0),
            "free": lambda: np.where(self.is_stranded(), 0, self.available()),
        }

    def __len__(self) -> int:
        return len(self._durations_ps)

    def column(self, name: str) -> NDArray[Any]:
        return self._columns[name]()

    @cached_property
    def busy_ps(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return super().busy_ps

    # What depends on how memory is held.

    @abstractmethod
    def reserved(self) -> Ints: ...

    @abstractmethod
    def internal(self) -> Ints: ...

    @abstractmethod
    def rounding(self) -> Ints: ...

    @abstractmethod
    def held(self) -> Ints:
        """Slots that somebody holds."""
        ...

    @abstractmethod
    def is_stranded(self) -> NDArray[np.bool_]:
        """Whether there is a head of `waiting`, and it is stranded."""
        ...

    # What does not.

    def available(self) -> Ints:
        """Slots that nobody holds."""
        return non_negative(self._num_slots - self.held())

    def running(self) -> Ints:
        """Sequences."""
        return self.sum_of_spans(1)

    def live(self) -> Ints:
        """Slots written: of each sequence, offset + rounds."""
        live = self.running()
        live *= self._rounds
        live += self.sum_of_spans(self._offsets)
        return live

    def waiting(self) -> Ints:
        """Sequences that have arrived, less those admitted, and those sent back."""
        starts_ps = self.ends_ps() - self._durations_ps
        waiting = np.searchsorted(np.array(self._arrivals_ps, dtype=starts_ps.dtype), starts_ps, side="right")
        is_admission = as_ints(self._journal.tokens) == self._stored  # nothing was stored before
        waiting += self._balance(self._journal.recomputed, self._firsts[is_admission])
        return waiting

    def ends_ps(self) -> NDArray[Any]:
        """When each step ended; Python's integers where 64 bits are too few."""
        gaps = [(step, idle_ps) for step, idle_ps in self._journal.idle if step < len(self)]
        last_ps = self.busy_ps + sum(idle_ps for _, idle_ps in gaps)
        ends_ps = self._durations_ps.astype(np.int64 if last_ps < 1 << 63 else object)
        for step, idle_ps in gaps:
            ends_ps[step] += idle_ps
        return np.cumsum(ends_ps, out=ends_ps)

    def sum_of_spans(self, values: Ints | int) -> Ints:
        """The sum of `values` over the spans of each step."""
        return self.running_total((self._firsts, values), (self._ends, -values))

    def running_total(self, *changes: tuple[Ints, Ints | int]) -> Ints:
        """What (steps, values) add up to, each value counting from its step on."""
        total = np.zeros(len(self) + 1, dtype=np.int64)
        for steps, values in changes:
            np.add.at(total, steps, values)
        return np.cumsum(total, out=total)[:-1]

    @cached_property
    def _rounds(self) -> Ints:
        """Rounds done after each step."""
        is_round = np.ones(len(self), dtype=np.int64)
        is_round[as_ints(self._journal.stalls)] = 0
        return np.cumsum(is_round, out=is_round)

    @cached_property
    def _first_rounds(self) -> Ints:
        """Rounds done after the first step of each span."""
        return self._rounds[self._firsts]

    @cached_property
    def _last_rounds(self) -> Ints:
        """Rounds done after the last step of each span."""
        return self._rounds[self._ends - 1]

    @cached_property
    def _offsets(self) -> Ints:
        """What a span's sequence has stored, less the rounds done."""
        return self._stored - self._first_rounds

    def _batch(self) -> Ints:
        """Sequences that ran: all that are running, but only the new ones where a step was no round."""
        batch = self.running()
        if len(stalls := as_ints(self._journal.stalls)):
            batch[stalls] = np.bincount(self._firsts, minlength=len(self))[stalls]
        return batch

    def _tokens(self) -> Ints:
        tokens = self._batch()
        np.add.at(tokens, self._firsts, as_ints(self._journal.tokens) - 1)
        return tokens

    def _balance(self, came: Any, went: Any) -> Ints:
        return self.running_total((as_ints(came), 1), (as_ints(went), -1))


class PagedSeries(LeapSeries):
    """Sequences hold whole blocks, as many as their tokens fill."""

    def __init__(self, *args: Any, block_size: int) -> None:
        super().__init__(*args)
        self._block_size = block_size
        self._last_stored = self._offsets + self._last_rounds  # after the last step of a span

    def weighted_sum(self, name: str) -> int:
        return self._sums[name] if name in self._sums else super().weighted_sum(name)

    @cached_property
    def _sums(self) -> dict[str, int]:
        """Those of the ledger, with each column folded only once."""
        sums = dict.fromkeys(CLASSES, 0)
        sums["pool"] = self._num_slots * self.busy_ps
        held = self.held()
        sums["free"] = sums["pool"] - exact_dot(held, self._durations_ps)
        for name in ("live", "internal"):
            sums[name] = exact_dot(column := self.column(name), self._durations_ps)
            held -= column
        sums["reserved"] = exact_dot(non_negative(held), self._durations_ps)
        return sums

    def reserved(self) -> Ints:
        return non_negative(self.held() - self.live() - self.internal())

    def internal(self) -> Ints:
        """Tails of last blocks that will never be filled, from the step on that takes the last block."""
        full = -(-self._final // self._block_size) * self._block_size
        starts = full - self._block_size + 1 - self._offsets  # in rounds done
        reaches = starts <= self._last_rounds
        steps = np.maximum(np.searchsorted(self._rounds, starts[reaches]), self._firsts[reaches])
        tails = (full - self._final)[reaches]
        return self.running_total((steps, tails), (self._ends[reaches], -tails))

    def rounding(self) -> Ints:
        return np.zeros(len(self), dtype=np.int64)

    def held(self) -> Ints:
        """The blocks of spans when they start, less those when they end, and what they took between."""
        size = self._block_size
        blocks = self.running_total(
            (self._firsts, -(-self._stored // size)), (self._ends, -self._last_stored // size)
        )
        grown = self._grown()
        blocks += grown[self._rounds] if len(self._journal.stalls) else grown[1 : len(self) + 1]
        blocks *= size
        return blocks

    def is_stranded(self) -> NDArray[np.bool_]:
        return np.zeros(len(self), dtype=np.bool_)

    def _grown(self) -> Ints:
        """Blocks that decoding sequences have taken as they grew, by rounds done.

        A span takes one every `block_size` rounds: from its first such round after its first step, until the
        first such round after its last step.
        """
        size = self._block_size
        num_cycles = -(-(len(self) + 1) // size) + 1
        taken = np.zeros(num_cycles * size, dtype=np.int64)
        np.add.at(taken, self._first_rounds + 1 + -self._stored % size, 1)
        np.add.at(taken, self._last_rounds + 1 + -self._last_stored % size, -1)
        by_cycle = taken.reshape(num_cycles, size)
        np.cumsum(by_cycle, axis=0, out=by_cycle)
        return np.cumsum(taken, out=taken)


class RangeSeries(LeapSeries):
    """Sequences hold one range each, the same from beginning to end."""

    def __init__(self, *args: Any, lengths: Ints, rounded: Ints) -> None:
        super().__init__(*args)
        self._lengths = lengths[self._sequences]
        self._rounded = rounded[self._sequences]

    def reserved(self) -> Ints:
        return non_negative(self.sum_of_spans(self._final) - self.live())

    def internal(self) -> Ints:
        return self.sum_of_spans(self._lengths - self._final)

    def rounding(self) -> Ints:
        return self.sum_of_spans(self._rounded - self._lengths)

    def held(self) -> Ints:
        return self.sum_of_spans(self._rounded)

    def is_stranded(self) -> NDArray[np.bool_]:
        steps, values = zip(*self._journal.stranded, strict=True)
        lengths = np.diff(steps, append=len(self))
        return np.repeat(values, lengths) & (self.waiting() > 0)


def as_ints(column: Any) -> Ints:
    """An array of Python's, or NumPy's own, as int64."""
    return np.asarray(column, dtype=np.int64)


def non_negative(slots: Ints) -> Ints:
    """`slots`, or AssertionError where the ledger does not add up."""
    assert not len(slots) or slots.min() >= 0, f"ledger does not add up: a class has {slots.min()} slots"
    return slots
