"""Host memory for swapped groups: the same tables over other blocks, sharing included."""

from collections.abc import Mapping

from sim.alloc.blocks import BlockPool
from sim.request import Sequence, SequenceGroup
from sim.tables import HOLE, real, unique


def mirror(tables: list[list[int]], blocks: list[int], pool: BlockPool) -> list[list[int]]:
    """The same tables over `blocks`, which stand for `unique(tables)` and have one owner each so far."""
    place_of = {**dict(zip(unique(tables), blocks, strict=True)), HOLE: HOLE}
    seen: set[int] = set()
    mirrored = [[place_of[block] for block in table] for table in tables]
    for block in (block for table in mirrored for block in real(table)):
        if block in seen:
            pool.share(block)
        seen.add(block)
    return mirrored


def written_tables(
    tables: Mapping[Sequence, list[int]], group: SequenceGroup, block_size: int
) -> list[list[int]]:
    """The group's tables as far as they are written; the first one, which fills what all share, as any."""
    first, *others = [sequence.stored for sequence in group.active]
    stored = [max([first, *others]), *others]
    return [
        tables[sequence][: -(-count // block_size)]
        for sequence, count in zip(group.active, stored, strict=True)
    ]


class SwapSpace:
    """Blocks of host memory, and the tables of the groups that wait there."""

    def __init__(self, num_blocks: int) -> None:
        self.pool = BlockPool(num_blocks)
        self.tables: dict[Sequence, list[int]] = {}

    def store(self, group: SequenceGroup, tables: list[list[int]]) -> list[int]:
        """Takes a host block for each of `unique(tables)`; returns them."""
        host_blocks, _ = self.pool.take(len(unique(tables)))
        self.tables.update(zip(group.active, mirror(tables, host_blocks, self.pool), strict=True))
        return host_blocks

    def tables_of(self, group: SequenceGroup) -> list[list[int]]:
        """The host tables of the group's sequences."""
        return [self.tables[sequence] for sequence in group.active]

    def drop(self, group: SequenceGroup) -> None:
        """Frees what the group holds here."""
        for sequence in group.active:
            self.pool.drop(reversed(real(self.tables.pop(sequence))))
