"""The table tensor turned around: which slots stand in which row, and at which position.

A slot that several sequences share has an entry for each of them.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """One entry for each slot of each row."""

    num_slots: int  # of the pool
    slot: NDArray[np.int64]  # [entries]
    row: NDArray[np.int64]  # [entries]
    position: NDArray[np.int64]  # [entries] of the row's token that the slot is for
    num_asked: NDArray[np.int64]  # [max_rows] positions of each row that its owner asked for
    fills_rounding: bool  # whether owners also fill what was not asked for
    num_shared: int  # entries with a second owner that no memory event made one

    def mask(self, entries: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Slots of which any entry is among `entries`: bool [num_slots]."""
        slots = np.zeros(self.num_slots, dtype=np.bool_)
        slots[self.slot[entries]] = True
        return slots

    @property
    def is_held(self) -> NDArray[np.bool_]:
        """Slots that stand in any row: bool [num_slots]."""
        slots = np.zeros(self.num_slots, dtype=np.bool_)
        slots[self.slot] = True
        return slots

    def extents(self, written: NDArray[np.bool_]) -> NDArray[np.int64]:
        """One more than the highest written position of each row: int64 [max_rows]."""
        extents = np.zeros_like(self.num_asked)
        is_written = written[self.slot]
        np.maximum.at(extents, self.row[is_written], self.position[is_written] + 1)
        return extents
