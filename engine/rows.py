"""The block-table tensor that the kernels read: whose each row is, and what stands in it.

    tensor  int32 [max_rows, max_blocks]
    EMPTY   past a row's last block, and in rows that are nobody's
    GONE    a hole in a table: a logical block that was given back, which no query reads

Rows follow the memory events and are never rebuilt: a step costs what changed in it, not what is held.
"""

import numpy as np
import torch

from engine.flat import to_device
from engine.snapshot import EMPTY, GONE, BlockRows
from sim.tables import HOLE


class TableRows:
    """Block tables by sequence, in plain lists and, after `flush`, in the tensor."""

    def __init__(self, max_rows: int, max_blocks: int, device: torch.device) -> None:
        self.tensor = torch.full((max_rows, max_blocks), EMPTY, dtype=torch.int32, device=device)
        self.index: dict[str, int] = {}  # row of each sequence that has one
        self.blocks: dict[str, list[int]] = {}  # holes included
        self._free = list(range(max_rows - 1, -1, -1))
        self._changed: dict[tuple[int, int], int] = {}  # (row, column) -> block, not yet in the tensor

    def extend(self, name: str, blocks: list[int]) -> None:
        """Appends to the sequence's row, which it gets if it has none."""
        if name not in self.index:
            self.index[name] = self._free.pop()
            self.blocks[name] = []
        row, table = self.index[name], self.blocks[name]
        for column, block in enumerate(blocks, start=len(table)):
            self._changed[row, column] = GONE if block == HOLE else block
        table.extend(blocks)

    def replace(self, name: str, blocks: list[int]) -> None:
        """The sequence's row is this now."""
        old = self.blocks.get(name, [])
        same = next((i for i, (a, b) in enumerate(zip(old, blocks, strict=False)) if a != b), None)
        same = min(len(old), len(blocks)) if same is None else same
        for column in range(same, len(old)):
            self._changed[self.index[name], column] = EMPTY
        del old[same:]
        self.extend(name, blocks[same:])

    def put(self, name: str, place: int, block: int) -> None:
        """One entry of the row changes."""
        self.blocks[name][place] = block
        self._changed[self.index[name], place] = GONE if block == HOLE else block

    def remove(self, name: str) -> None:
        """The sequence gives up its row."""
        row = self.index.pop(name)
        self._changed.update({(row, column): EMPTY for column in range(len(self.blocks.pop(name)))})
        self._free.append(row)

    def flush(self) -> None:
        """Brings the tensor up to date, in one transfer."""
        if not self._changed:
            return
        where = np.array(list(self._changed), dtype=np.int64)  # [changes, 2]
        blocks = np.array(list(self._changed.values()), dtype=np.int64)
        rows, columns, values = to_device([where[:, 0], where[:, 1], blocks], self.tensor.device)
        self.tensor[rows, columns] = values.int()
        self._changed.clear()

    def snapshot(self) -> BlockRows:
        """The rows of all sequences, read back from the tensor."""
        return BlockRows.of(self.tensor.cpu().numpy(), self.index)
