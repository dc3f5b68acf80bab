"""Block tables: a list of physical block ids by logical block, with holes; or one range of slots.

    [7, -1, -1, 3, 9]      logical blocks 1 and 2 were given back, or never fetched: no query reads them

What follows a hole keeps its logical place, so token `t` is in logical block `t // block_size` as ever
(vLLM fills such places with its null block).
"""

from collections.abc import Iterable
from typing import NamedTuple

HOLE = -1


class SlotRange(NamedTuple):
    """A contiguous allocator's block table: slots `[start, start + length)`, `reserved` of them asked for."""

    start: int
    length: int
    reserved: int


BlockTable = list[int] | SlotRange


def real(table: Iterable[int]) -> list[int]:
    """The blocks of a table, without its holes."""
    return [block for block in table if block != HOLE]


def unique(tables: Iterable[list[int]]) -> list[int]:
    """The blocks of all tables, each once, in table order; holes are none."""
    return list(dict.fromkeys(block for table in tables for block in real(table)))
