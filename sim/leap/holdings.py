"""The columns of a leapt run's series that depend on how memory is held."""

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.leap.series import Ints, LeapSeries, non_negative
from sim.ledger import CLASSES
from sim.series import exact_dot


class PagedSeries(LeapSeries):
    """Sequences hold whole blocks, as many as their tokens fill."""

    def __init__(self, *args: Any, block_size: int) -> None:
        super().__init__(*args)
        self._block_size = block_size
        self._last_stored = self._offsets + self._last_rounds  # after the last step of a span

    def weighted_sum(self, name: str) -> int:
        sums, _ = self._tally
        return sums[name] if name in sums else super().weighted_sum(name)

    @property
    def peak_held(self) -> int:
        return self._tally[1]

    @cached_property
    def _tally(self) -> tuple[dict[str, int], int]:
        """The ledger's weighted sums and the most slots held, with each column folded only once."""
        sums = dict.fromkeys(CLASSES, 0)
        sums["pool"] = self._num_slots * self.busy_ps
        held = self.held()
        peak_held = int(held.max(initial=0))
        assert peak_held <= self._num_slots, f"{peak_held} slots held of {self._num_slots}"
        sums["free"] = sums["pool"] - exact_dot(held, self._durations_ps)
        sums["blocks"] = sums["table_entries"] = (sums["pool"] - sums["free"]) // self._block_size
        for name in ("live", "internal"):
            sums[name] = exact_dot(column := self.column(name), self._durations_ps)
            held -= column
        sums["reserved"] = exact_dot(non_negative(held), self._durations_ps)
        return sums, peak_held

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

    def blocks(self) -> Ints:
        return self.held() // self._block_size

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

    def blocks(self) -> Ints:
        return np.zeros(len(self), dtype=np.int64)

    def is_stranded(self) -> NDArray[np.bool_]:
        steps, values = zip(*self._journal.stranded, strict=True)
        lengths = np.diff(steps, append=len(self))
        return np.repeat(values, lengths) & (self.waiting() > 0)
