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
from sim.series import StepTable, exact_sum

Ints = NDArray[np.int64]


class LeapSeries(StepTable):
    """What all allocators have in common."""

    def __init__(
        self,
        journal: Journal,
        durations_ps: Ints,
        arrivals_ps: list[int],
        final: Ints,
        num_slots: int,
        start_ps: int = 0,
    ) -> None:
        self._journal = journal
        self._start_ps = start_ps
        self._durations_ps = durations_ps
        self._arrivals_ps = arrivals_ps  # by index
        self._num_slots = num_slots
        self._busy_ps = exact_sum(durations_ps)
        ran = as_ints(journal.ends) > as_ints(journal.firsts)  # not so: carried, and preempted at once
        self._sequences = as_ints(journal.sequences)[ran]
        self._firsts = as_ints(journal.firsts)[ran]
        self._ends = as_ints(journal.ends)[ran]
        # By the first step of a span, and after it. A carried one stores a token in it if that is a round.
        first_rounds = np.zeros(len(ran), dtype=np.int64)
        if len(self):
            first_rounds[: len(journal.carried_stored)] = self._rounds[0]
        self._tokens_first = (as_ints(journal.tokens) + first_rounds)[ran]
        self._stored = (as_ints(journal.stored) + first_rounds)[ran]
        self._num_carried = int(ran[: len(journal.carried_stored)].sum())
        self._final = final[self._sequences]  # what its sequence stores in the end
        self._columns: dict[str, Callable[[], NDArray[Any]]] = {
            "step": lambda: np.arange(1, len(self) + 1),
            "time": lambda: all_to_s(self.ends_ps()),
            "duration": lambda: self._durations_ps / PS_PER_S,
            "duration_ps": lambda: self._durations_ps,
            "batch": self._batch,
            "tokens": self._tokens,
            "running": lambda: self.running,
            "waiting": self.waiting,
            "swapped": lambda: self._balance(journal.swapped_out, journal.swapped_in),
            "blocks": self.blocks,
            "table_entries": self.blocks,  # nothing is shared
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

    @property
    def busy_ps(self) -> int:
        return self._busy_ps

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
    def blocks(self) -> Ints:
        """Blocks in all tables, none of them shared; 0 where there are none."""
        ...

    @abstractmethod
    def is_stranded(self) -> NDArray[np.bool_]:
        """Whether there is a head of `waiting`, and it is stranded."""
        ...

    # What does not.

    def available(self) -> Ints:
        """Slots that nobody holds."""
        return non_negative(self._num_slots - self.held())

    @cached_property
    def running(self) -> Ints:
        """Sequences. Asked for so often that it is kept."""
        return self.sum_of_spans(1)

    @property
    def peak_held(self) -> int:
        """The most slots held after any step."""
        return int(self.held().max(initial=0))

    def live(self) -> Ints:
        """Slots written: of each sequence, offset + rounds."""
        live = self.running * self._rounds
        live += self.sum_of_spans(self._offsets)
        return live

    def waiting(self) -> Ints:
        """Sequences that have arrived, less those admitted, and those sent back."""
        starts_ps = self.ends_ps() - self._durations_ps
        waiting = np.searchsorted(np.array(self._arrivals_ps, dtype=starts_ps.dtype), starts_ps, side="right")
        is_admission = self._tokens_first == self._stored  # nothing was stored before
        waiting -= self._journal.num_in_service
        waiting += self._balance(self._journal.recomputed, self._firsts[is_admission])
        return waiting

    def ends_ps(self) -> NDArray[Any]:
        """When each step ended; Python's integers where 64 bits are too few."""
        gaps = [(step, idle_ps) for step, idle_ps in self._journal.idle if step < len(self)]
        last_ps = self._start_ps + self.busy_ps + sum(idle_ps for _, idle_ps in gaps)
        ends_ps = self._durations_ps.astype(np.int64 if last_ps < 1 << 63 else object)
        for step, idle_ps in ((0, self._start_ps), *gaps) if len(self) else ():
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
        if not len(self._journal.stalls):
            return self.running
        batch, stalls = self.running.copy(), as_ints(self._journal.stalls)
        began = np.bincount(self._firsts, minlength=len(self))
        began[:1] -= self._num_carried
        batch[stalls] = began[stalls]
        return batch

    def _tokens(self) -> Ints:
        tokens = self._batch().copy()
        is_new = np.arange(len(self._firsts)) >= self._num_carried
        np.add.at(tokens, self._firsts[is_new], self._tokens_first[is_new] - 1)
        return tokens

    def _balance(self, came: Any, went: Any) -> Ints:
        return self.running_total((as_ints(came), 1), (as_ints(went), -1))


def as_ints(column: Any) -> Ints:
    """An array of Python's, or NumPy's own, as int64."""
    return np.asarray(column, dtype=np.int64)


def non_negative(slots: Ints) -> Ints:
    """`slots`, or AssertionError where the ledger does not add up."""
    assert not len(slots) or slots.min() >= 0, f"ledger does not add up: a class has {slots.min()} slots"
    return slots
