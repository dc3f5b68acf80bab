"""What a run writes down at every step: one row of numbers, kept in flat arrays."""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from sim.clock import PS_PER_S
from sim.ledger import CLASSES, Ledger

COLUMNS = ("step", "time", "pool", *CLASSES, "running", "waiting", "swapped")


@dataclass(frozen=True, slots=True)
class Row:
    """One step: when it ended, how long it took, what it ran, and the ledger after its writes."""

    step: int
    time: float
    duration_ps: int
    batch: int  # sequences
    tokens: int
    running: int
    waiting: int
    swapped: int
    ledger: Ledger
    blocks: int = 0  # different blocks in all tables
    table_entries: int = 0  # blocks in all tables: what sequences would hold if they shared nothing


class Series:
    """The rows of a run by column. Integers are slots or counts, times are seconds."""

    def __init__(self) -> None:
        self._times: dict[str, array[float]] = {"time": array("d")}
        names = ("step", "duration_ps", "batch", "tokens", "running", "waiting", "swapped", "pool", *CLASSES)
        names += ("blocks", "table_entries")
        self._counts: dict[str, array[int]] = {name: array("q") for name in names}

    def add(self, row: Row) -> None:
        """Appends one step; its ledger must add up."""
        row.ledger.check(row.step)
        for name, column in self._times.items():
            column.append(getattr(row, name))
        for name, column in self._counts.items():
            column.append(getattr(row.ledger if hasattr(row.ledger, name) else row, name))

    def __len__(self) -> int:
        return len(self._times["time"])

    def column(self, name: str) -> NDArray[Any]:
        """One column as an array [steps]; `duration` is `duration_ps` in seconds."""
        if name == "duration":
            return self.column("duration_ps") / PS_PER_S
        if name in self._times:
            return np.frombuffer(self._times[name], dtype=np.float64)
        return np.frombuffer(self._counts[name], dtype=np.int64)

    def mean(self, name: str) -> float:
        """Mean of a column of counts, weighted by step duration: over busy time, that is. 0 for no steps.

        The sums are exact integers, so they do not depend on how the steps were added up.
        """
        total = exact_dot(np.ones(len(self), dtype=np.int64), self.column("duration_ps"))
        return exact_dot(self.column(name), self.column("duration_ps")) / total if total else 0.0

    def rows(self) -> Iterator[tuple[float, ...]]:
        """The rows of `COLUMNS`, one a step."""
        columns = [self.column(name).tolist() for name in COLUMNS]
        return zip(*columns, strict=True)

    def write_csv(self, out: TextIO) -> None:
        """Writes a header and one row a step."""
        out.write(",".join(COLUMNS) + "\n")
        for row in self.rows():
            out.write(",".join(repr(value) for value in row) + "\n")


def exact_dot(counts: NDArray[np.int64], weights: NDArray[np.int64]) -> int:
    """The dot product as an exact integer. Counts below 2^31, weights below 2^62, both at least 0."""
    low_bits = 20
    high, low = weights >> low_bits, weights & ((1 << low_bits) - 1)
    total = 0
    for start in range(0, len(counts), 1024):  # 1024 x 2^31 x 2^20 < 2^63
        part = slice(start, start + 1024)
        total += int(np.dot(counts[part], low[part]))
        total += sum(map(int.__mul__, counts[part].tolist(), high[part].tolist())) << low_bits
    return total
