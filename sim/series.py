"""What a run writes down at every step: one row of numbers, kept in flat arrays."""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

from sim.ledger import CLASSES, Ledger

COLUMNS = ("step", "time", "pool", *CLASSES, "running", "waiting", "swapped")


@dataclass(frozen=True, slots=True)
class Row:
    """One step: when it ended, how long it took, what it ran, and the ledger after its writes."""

    step: int
    time: float
    duration: float
    batch: int  # sequences
    tokens: int
    running: int
    waiting: int
    swapped: int
    ledger: Ledger


class Series:
    """The rows of a run by column. Integers are slots or counts, times are seconds."""

    def __init__(self) -> None:
        self._times: dict[str, array[float]] = {name: array("d") for name in ("time", "duration")}
        names = ("step", "batch", "tokens", "running", "waiting", "swapped", "pool", *CLASSES)
        self._counts: dict[str, array[int]] = {name: array("q") for name in names}

    def add(self, row: Row) -> None:
        """Appends one step; its ledger must add up."""
        row.ledger.check()
        for name, column in self._times.items():
            column.append(getattr(row, name))
        for name, column in self._counts.items():
            column.append(getattr(row.ledger if hasattr(row.ledger, name) else row, name))

    def __len__(self) -> int:
        return len(self._times["time"])

    def column(self, name: str) -> NDArray[np.float64] | NDArray[np.int64]:
        """One column as an array [steps]."""
        if name in self._times:
            return np.frombuffer(self._times[name], dtype=np.float64)
        return np.frombuffer(self._counts[name], dtype=np.int64)

    def mean(self, name: str) -> float:
        """Mean of a column, weighted by step duration: over busy time, that is."""
        weights = self.column("duration")
        total = float(weights.sum())
        return float(np.dot(self.column(name), weights)) / total if total else 0.0

    def rows(self) -> Iterator[tuple[float, ...]]:
        """The rows of `COLUMNS`, one a step."""
        columns = [self.column(name).tolist() for name in COLUMNS]
        return zip(*columns, strict=True)

    def write_csv(self, out: TextIO) -> None:
        """Writes a header and one row a step."""
        out.write(",".join(COLUMNS) + "\n")
        for row in self.rows():
            out.write(",".join(repr(value) for value in row) + "\n")
