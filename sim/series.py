"""What a run writes down at every step: one row of numbers, kept in flat arrays."""

from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter
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


class StepTable(ABC):
    """The rows of a run by column. Integers are slots or counts, times are seconds."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def column(self, name: str) -> NDArray[Any]:
        """One column as an array [steps]; `duration` is `duration_ps` in seconds."""
        ...

    @property
    def busy_ps(self) -> int:
        """The duration of all steps together."""
        return exact_sum(self.column("duration_ps"))

    def mean(self, name: str) -> float:
        """Mean of a column of counts, weighted by step duration: over busy time, that is. 0 for no steps.

        The sums are exact integers, so they do not depend on how the steps were added up.
        """
        busy_ps = self.busy_ps
        return self.weighted_sum(name) / busy_ps if busy_ps else 0.0

    def weighted_sum(self, name: str) -> int:
        """The sum over steps of a column of counts times the step's duration in picoseconds."""
        return exact_dot(self.column(name), self.column("duration_ps"))

    def rows(self) -> Iterator[tuple[float, ...]]:
        """The rows of `COLUMNS`, one a step."""
        columns = [self.column(name).tolist() for name in COLUMNS]
        return zip(*columns, strict=True)

    def write_csv(self, out: TextIO) -> None:
        """Writes a header and one row a step."""
        out.write(",".join(COLUMNS) + "\n")
        for row in self.rows():
            out.write(",".join(repr(value) for value in row) + "\n")


class Series(StepTable):
    """Written row by row."""

    def __init__(self) -> None:
        self._times: dict[str, array[float]] = {"time": array("d")}
        names = ("step", "duration_ps", "batch", "tokens", "running", "waiting", "swapped", "pool", *CLASSES)
        names += ("blocks", "table_entries")
        self._counts: dict[str, array[int]] = {name: array("q") for name in names}
        of_ledger = {name for name in names if name in Ledger.__slots__}
        self._read = attrgetter(*(f"ledger.{name}" if name in of_ledger else name for name in names))

    def add(self, row: Row) -> None:
        """Appends one step; its ledger must add up."""
        row.ledger.check(row.step)
        self._times["time"].append(row.time)
        for column, count in zip(self._counts.values(), self._read(row), strict=True):
            column.append(count)

    def __len__(self) -> int:
        return len(self._times["time"])

    def column(self, name: str) -> NDArray[Any]:
        if name == "duration":
            return self.column("duration_ps") / PS_PER_S
        if name in self._times:
            return np.frombuffer(self._times[name], dtype=np.float64)
        return np.frombuffer(self._counts[name], dtype=np.int64)


def exact_sum(weights: NDArray[np.int64]) -> int:
    """The sum as an exact integer. At most 2^32 weights, at least 0."""
    return (int((weights >> 32).sum()) << 32) + int((weights & (2**32 - 1)).sum())


def exact_dot(counts: NDArray[np.int64], weights: NDArray[np.int64]) -> int:
    """The dot product as an exact integer. Counts below 2^31, weights below 2^62, both at least 0."""
    if not len(counts):
        return 0
    part_bits = 20
    largest = max(1, int(counts.max()))
    length = (1 << 62) // (largest << part_bits)  # so many products of a count and a part stay below 2^62
    total = 0
    for start in range(0, len(counts), length):
        some, rest = counts[start : start + length], weights[start : start + length]
        for shift in range(0, int(rest.max()).bit_length(), part_bits):
            part = (rest >> shift) & ((1 << part_bits) - 1)
            total += int(np.dot(some, part)) << shift
    return total
