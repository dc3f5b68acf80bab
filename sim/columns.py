"""Sequences that decode, as columns: a step changes three arrays instead of every sequence.

In decode a sequence has stored all that it knows but its last token, so `emitted` says everything:

    stored == prompt + emitted - 1

The objects lag behind until somebody needs them: `write_back` brings them up to date.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from sim.alloc import Usage
from sim.request import Sequence, SequenceGroup


class DecodeColumns:
    """Requests of one sequence each, all of them past their prefill, in the scheduler's order.

    emitted, stored   int64 [rows], as they are now
    """

    def __init__(self) -> None:
        self.groups: list[SequenceGroup] = []
        self.sequences: list[Sequence] = []
        self.emitted = self.stored = self._final = np.zeros(0, dtype=np.int64)
        self._is_behind = False

    def __len__(self) -> int:
        return len(self.groups)

    def advance(self) -> None:
        """Each stores its last token and emits the next."""
        self.emitted += 1
        self.stored += 1
        self._is_behind = True

    @property
    def ended(self) -> NDArray[np.bool_]:
        """bool [rows]: those that have emitted their last token (which nobody knows before it is out)."""
        return self.stored == self._final

    def at_block_end(self, block_size: int) -> list[int]:
        """Rows whose last block is full."""
        return np.flatnonzero(self.stored % block_size == 0).tolist()

    def write_back(self, rows: Iterable[int] | None = None) -> None:
        """Brings the sequences of these rows, or of all, up to date."""
        if not self._is_behind:
            return
        if rows is None:
            self._is_behind = False
            rows = range(len(self))
        stored, emitted = self.stored.tolist(), self.emitted.tolist()
        for row in rows:
            sequence = self.sequences[row]
            sequence.emitted = emitted[row]
            sequence.stored = sequence.most_stored = stored[row]

    def add(self, groups: list[SequenceGroup]) -> None:
        """Rows behind those that are there."""
        sequences = [group.sequences[0] for group in groups]
        self.groups += groups
        self.sequences = self.sequences + sequences  # a batch may hold the old list
        self.emitted = _extended(self.emitted, [sequence.emitted for sequence in sequences])
        self.stored = _extended(self.stored, [sequence.stored for sequence in sequences])
        self._final = _extended(self._final, [group.request.final_tokens for group in groups])

    def drop(self, rows: NDArray[np.bool_]) -> None:
        """Without these rows; their sequences stay as they were written back."""
        kept = np.flatnonzero(~rows)
        self.groups = [self.groups[row] for row in kept]
        self.sequences = [group.sequences[0] for group in self.groups]
        self.emitted, self.stored, self._final = self.emitted[kept], self.stored[kept], self._final[kept]

    def usage(self, block_size: int) -> Usage:
        """Of block tables that grow with their sequences and share nothing: `sim.alloc.usage.paged_usage`."""
        num_blocks = -(-self.stored // block_size)
        live, total = int(self.stored.sum()), int(num_blocks.sum())
        filled = int(np.minimum(num_blocks * block_size, self._final).sum())
        return Usage(
            live=live,
            reserved=filled - live,
            internal=total * block_size - filled,
            blocks=total,
            table_entries=total,
        )


def _extended(column: NDArray[np.int64], numbers: list[int]) -> NDArray[np.int64]:
    return np.concatenate([column, np.array(numbers, dtype=np.int64)])
