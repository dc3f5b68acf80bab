"""Percentiles of more values than anybody wants to keep, to within a known relative error.

After DDSketch (Masson, Rim, Lee, VLDB 2019): values are counted by the logarithm of their size, so that each
counter holds values that differ by no more than the error allows, whatever their distribution.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

RELATIVE_ERROR = 0.0005
SMALLEST, LARGEST = 1e-12, 1e12  # seconds: a picosecond, and the longest run there is
_WIDTH = np.log((1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR))
_FIRST = int(np.floor(np.log(SMALLEST) / _WIDTH))
_NUM_COUNTERS = int(np.ceil(np.log(LARGEST) / _WIDTH)) - _FIRST + 1


class Quantiles:
    """Counts values of at least 0; those below a picosecond count as 0. Half a megabyte, however many."""

    def __init__(self) -> None:
        self.count = 0
        self._sum = 0.0
        self._num_zero = 0
        self._counters = np.zeros(_NUM_COUNTERS, dtype=np.int64)

    def add(self, values: NDArray[np.float64]) -> None:
        """[n] values more."""
        self.count += len(values)
        self._sum += float(values.sum())
        positive = values[values > SMALLEST]
        self._num_zero += len(values) - len(positive)
        places = np.floor(np.log(np.minimum(positive, LARGEST)) / _WIDTH).astype(np.int64) - _FIRST
        self._counters += np.bincount(places, minlength=_NUM_COUNTERS)

    def summary(self) -> dict[str, Any]:
        """What `sim.report.summarize` says of the same values: percentiles within the error."""
        if not self.count:
            return {"mean": None, "p50": None, "p95": None, "p99": None}
        points = {f"p{percent}": self._at(percent / 100) for percent in (50, 95, 99)}
        return {"mean": self._sum / self.count, **points}

    def _at(self, share: float) -> float:
        """The value with this share of the others below it."""
        rank = share * (self.count - 1)
        if rank < self._num_zero:
            return 0.0
        place = int(np.searchsorted(np.cumsum(self._counters), rank - self._num_zero, side="right"))
        return float(np.exp((place + _FIRST) * _WIDTH) * (1 + np.exp(_WIDTH)) / 2)
