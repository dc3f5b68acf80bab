"""What block tables take: one row for each sequence that holds memory, flat or in two levels.

flat        room for the longest sequence, whatever is used (vLLM's `block_table` tensor)
two-level   a directory with room for the longest sequence, and leaves as far as they are used

    sequence -> directory [ceil(entries / LEAF_ENTRIES)] -> leaf [LEAF_ENTRIES] -> block

An entry is an int32 of 4 bytes everywhere: a block id, or in a directory the number of a leaf. Where small
blocks can make up a large one (`sim.alloc.runs`) a leaf is as long as such a run, and the directory's entry
names a large block itself, so that it needs no leaf.
"""

from collections.abc import Collection
from dataclasses import dataclass

from sim.alloc.runs import is_large

ENTRY_BYTES = 4
LEAF_ENTRIES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class TableShape:
    """`max_blocks` is what the longest sequence needs; `run_blocks` is 1 where there are no large blocks."""

    max_blocks: int
    is_two_level: bool = False
    run_blocks: int = 1

    @property
    def leaf_entries(self) -> int:
        """Entries of a leaf."""
        return self.run_blocks if self.run_blocks > 1 else LEAF_ENTRIES

    def bytes_of(self, tables: Collection[list[int]]) -> int:
        """Bytes of the tables that exist now."""
        if not self.is_two_level:
            return ENTRY_BYTES * self.max_blocks * len(tables)
        directory = -(-self.max_blocks // self.leaf_entries)
        return ENTRY_BYTES * sum(directory + self.leaf_entries * self._num_leaves(table) for table in tables)

    def _num_leaves(self, table: list[int]) -> int:
        num_leaves = -(-len(table) // self.leaf_entries)
        return num_leaves - num_large_blocks(table, self.run_blocks)


def num_large_blocks(table: list[int], run_blocks: int) -> int:
    """Large blocks in a table; 0 where there are none in the pool."""
    if run_blocks == 1:
        return 0
    places = range(0, len(table) - run_blocks + 1, run_blocks)
    return sum(is_large(table, place, run_blocks) for place in places)
