"""Table tensors as they were at one moment, kept small: a run holds one of them for every step.

In a table tensor EMPTY is no block and no range, GONE a hole between blocks. The first may come after a
row's last block, where a row that ends with holes must still be as long as it is.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim.tables import HOLE, BlockTable, SlotRange

EMPTY = -1
GONE = -2


@dataclass(frozen=True, slots=True)
class BlockRows:
    """Block tables, one after another."""

    names: tuple[str, ...]
    blocks: NDArray[np.int32]  # of all tables; HOLE where nothing is
    ends: NDArray[np.int64]  # [len(names)], where each table ends

    @classmethod
    def of(cls, tables: NDArray[np.int32], rows: Mapping[str, int]) -> "BlockRows":
        """The rows of the named sequences out of all."""
        held = tables[list(rows.values())]
        is_used = held != EMPTY
        blocks = held[is_used]
        blocks[blocks == GONE] = HOLE
        return cls(tuple(rows), blocks, np.cumsum(is_used.sum(axis=1)))

    def as_dict(self) -> dict[str, BlockTable]:
        """Each sequence's table."""
        parts = np.split(self.blocks, self.ends[:-1]) if self.names else []
        return {name: part.tolist() for name, part in zip(self.names, parts, strict=True)}


@dataclass(frozen=True, slots=True)
class RangeRows:
    """Ranges of slots."""

    names: tuple[str, ...]
    ranges: NDArray[np.int64]  # [len(names), 3]: start, end of what was asked for, end of what is held

    def as_dict(self) -> dict[str, BlockTable]:
        """Each sequence's range."""
        return {
            name: SlotRange(start, held_end - start, asked_end - start)
            for name, (start, asked_end, held_end) in zip(self.names, self.ranges.tolist(), strict=True)
        }


Tables = BlockRows | RangeRows
