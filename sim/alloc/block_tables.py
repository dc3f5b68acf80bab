"""Block tables over one pool of blocks: they grow, share blocks, and copy a shared one before writing to it.

What is done here is announced here. Who may take how much is decided elsewhere (`sim.alloc.paged`).
"""

from sim.alloc.announce import Announcer
from sim.alloc.blocks import BlockPool
from sim.alloc.protocol import Traffic
from sim.alloc.tables import ENTRY_BYTES, TableShape
from sim.request import Sequence
from sim.tables import real
from sim.words import counted


class BlockTables:
    """One table for each sequence that holds memory; a block stands in as many as it has owners."""

    def __init__(
        self, pool: BlockPool, block_size: int, say: Announcer, table_shape: TableShape | None
    ) -> None:
        self.block_size = block_size
        self.device = pool
        self.tables: dict[Sequence, list[int]] = {}
        self.traffic = Traffic()
        self._say = say
        self._table_shape = table_shape

    def table_bytes(self) -> int:
        if self._table_shape is None:  # rows that are as long as they are used
            return ENTRY_BYTES * sum(map(len, self.tables.values()))
        return self._table_shape.bytes_of(self.tables.values())

    def _extend(self, sequence: Sequence, count: int) -> list[int]:
        """Appends `count` blocks, which must be there; returns them."""
        if not count:
            return []
        table = self.tables[sequence]
        blocks = self._take(sequence, count, len(table))
        table.extend(blocks)
        return blocks

    def _take(self, sequence: Sequence, count: int, place: int) -> list[int]:
        after = self.tables[sequence][place - 1] if place else None
        blocks, evicted = self.device.take(count, place, after)
        if evicted:
            self._say.evict(sequence, evicted, self.device.why_evicted)
        return blocks

    def _furnish(self, sequence: Sequence, count: int, num_tokens: int) -> None:
        """`count` blocks for the input of a sequence that was admitted."""
        if blocks := self._extend(sequence, count):
            size, left = self.block_size, self.device.num_free
            taken = f"{counted(len(blocks), 'blocks')} of {size}"
            self._say.alloc(sequence, blocks, f"{counted(num_tokens, 'tokens')}: {taken}, {left} left free")

    def _continue_from(self, parent: Sequence, child: Sequence, blocks: list[int]) -> None:
        for block in real(blocks):
            self.device.share(block)
        self.tables[child] = blocks
        self._say.fork(parent, child, blocks)

    def _copy_on_write(self, sequence: Sequence, place: int, num_tokens: int) -> None:
        table = self.tables[sequence]
        source = table[place]
        num_owners = self.device.num_refs[source]
        destination = self._take(sequence, 1, place)[0]
        self.device.drop([source])
        table[place] = destination
        self.traffic.copies += 1
        self.traffic.copied_tokens += num_tokens
        self._say.copy(sequence, place, source, destination, num_tokens, num_owners)
