"""Which query is the last to see each token, where tokens are dropped one by one: heavy hitters.

    tensor  int32 [max_rows, max_len]; NEVER where a token is not dropped yet
            token p of a row is seen by queries at positions up to tensor[row, p]

The rule is the simulator's (`sim.horizon.HeavyHitters`): weights are drawn, since a token's real share of
attention is known only to the model that reads it; which tokens go, and when, follows from them. Here the
tokens do go: kernels read neither their keys nor their values, and blocks that hold no others are filled with
the sentinel. Dropped as number i, a token was last seen by the query at position i + recent + heavy - 1.
"""

from collections.abc import Iterable, Mapping

import numpy as np
import torch

from engine.flat import to_device
from sim.batch import Chunk
from sim.horizon import HeavyHitters
from sim.request import Request, SequenceGroup

NEVER = 2**31 - 1


class Dropping:
    """Rows as those of the pool's table. A step costs what it drops, not what is held."""

    def __init__(self, horizon: HeavyHitters, max_rows: int, max_len: int, device: torch.device) -> None:
        self.tensor = torch.full((max_rows, max_len), NEVER, dtype=torch.int32, device=device)
        self._horizon = horizon
        self._owner: dict[int, str] = {}  # of each row that has been used
        self._num_dropped: dict[int, int] = {}
        self._changes: list[tuple[int, int, int]] = []  # row, token, last query that sees it

    def before(self, chunks: Iterable[Chunk], rows: Mapping[str, int]) -> None:
        """Up to what the queries of these chunks see."""
        for chunk in chunks:
            dropped = self._horizon.num_dropped(chunk.context - 1, is_prefilling=chunk.is_prefill)
            self._drop(chunk.sequence.request, rows[chunk.sequence.name], chunk.sequence.name, dropped)
        self._flush()

    def after(self, groups: Iterable[SequenceGroup], rows: Mapping[str, int]) -> None:
        """Up to what the next query of each of their sequences will see."""
        for sequence in (sequence for group in groups for sequence in group.active):
            dropped = self._horizon.num_dropped(sequence.stored, is_prefilling=sequence.is_prefilling)
            self._drop(sequence.request, rows[sequence.name], sequence.name, dropped)
        self._flush()

    def _drop(self, request: Request, row: int, name: str, count: int) -> None:
        so_far = self._num_dropped.get(row, 0)
        if self._owner.get(row) != name or (so_far and not count):  # a new row, or read from the start again
            self._flush()
            self.tensor[row] = NEVER
            self._owner[row], so_far = name, 0
        count = max(count, so_far)  # drafts that were rolled back saw further
        recent, heavy = self._horizon.recent, self._horizon.heavy
        for number, token in enumerate(self._horizon.drop_order(request, so_far, count), start=so_far):
            self._changes.append((row, token, number + recent + heavy - 1))
        self._num_dropped[row] = count

    def _flush(self) -> None:
        if self._changes:
            changes = np.array(self._changes, dtype=np.int64)
            rows, tokens, last = to_device([changes[:, 0], changes[:, 1], changes[:, 2]], self.tensor.device)
            self.tensor[rows, tokens] = last.int()
            self._changes = []
