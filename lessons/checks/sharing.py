"""Lesson 7: reference counts, copy-on-write, and beams that change places."""

from collections.abc import Callable, Iterator
from functools import wraps
from random import Random
from typing import Any

from lessons.checks.core import check
from lessons.pictures_blocks import pools
from sim.alloc import BlockPool

Table = list[int]
NUM_BLOCKS = 16


def library_pool(refs: list[int], free: Table) -> BlockPool:
    """The library's pool with these reference counts and this free list."""
    pool = BlockPool(len(refs))
    pool.take(len(refs))
    for block, count in enumerate(refs):
        for _ in range(count - 1):
            pool.share(block)
    pool.drop(free)
    return pool


def left_in(pool: BlockPool) -> dict[str, Table]:
    """Reference counts and free list of a pool, which is used up by that."""
    return {"refs": pool.num_refs[:], "free": pool.take(pool.num_free)[0][::-1]}


def write(answer: Callable[[Table, int, Table, Table, int], tuple[int, int] | None]) -> None:
    """Checks `answer(table, position, refs, free, block_size)`, with the lists that it leaves behind."""

    def yours(table: Table, position: int, refs: Table, free: Table, block_size: int) -> Any:
        table, refs, free = table[:], refs[:], free[:]
        copied = answer(table, position, refs, free, block_size)
        return copied, {"table": table, "refs": refs, "free": free}

    def library(table: Table, position: int, refs: Table, free: Table, block_size: int) -> Any:
        table, pool, place, copied = table[:], library_pool(refs, free), position // block_size, None
        if refs[table[place]] > 1:
            (block,), _ = pool.take(1)
            pool.drop([table[place]])
            copied, table[place] = (table[place], block), block
        return copied, {"table": table, **left_in(pool)}

    def draw(table: Table, position: int, refs: Table, free: Table, size: int, got: Any, right: Any) -> Any:
        sides = {"before": table, "yours": got[1]["table"], "right": right[1]["table"]}
        versions = {name: ({"a": side}, {"a": position}) for name, side in sides.items()}
        return pools(versions, NUM_BLOCKS, size)

    check(wraps(answer)(yours), library, _writes(), picture=draw)


def release(answer: Callable[[Table, Table, Table], None]) -> None:
    """Checks `answer(table, refs, free)` by the lists that it leaves behind."""

    def yours(table: Table, refs: Table, free: Table) -> Any:
        table, refs, free = table[:], refs[:], free[:]
        answer(table, refs, free)
        return {"table": table, "refs": refs, "free": free}

    def library(table: Table, refs: Table, free: Table) -> Any:
        pool = library_pool(refs, free)
        pool.drop(reversed(table))
        return {"table": [], **left_in(pool)}

    def draw(table: Table, refs: Table, free: Table, got: Any, right: Any) -> Any:
        lists = {"free before": {"free": free}, "yours": {"free": got["free"]}}
        versions = {name: (side, {}) for name, side in (lists | {"right": {"free": right["free"]}}).items()}
        return pools(versions, NUM_BLOCKS, 1)

    cases = ((tables[0], refs, free) for tables, refs, free in _families(2))
    check(wraps(answer)(yours), library, cases, picture=draw)


def reorder(answer: Callable[[list[Table], list[int], Table, Table], list[Table]]) -> None:
    """Checks `answer(tables, parents, refs, free)`, on the paper's Figure 9 first."""

    def yours(tables: list[Table], parents: list[int], refs: Table, free: Table) -> Any:
        tables, refs, free = [table[:] for table in tables], refs[:], free[:]
        new = answer(tables, parents, refs, free)
        return {"tables": new, "refs": refs, "free": free}

    def library(tables: list[Table], parents: list[int], refs: Table, free: Table) -> Any:
        pool = library_pool(refs, free)
        new = [tables[parent][:] for parent in parents]
        for block in (block for table in new for block in table):
            pool.share(block)
        pool.drop(block for table in tables for block in reversed(table))
        return {"tables": new, **left_in(pool)}

    def draw(tables: list[Table], parents: list[int], refs: Table, free: Table, got: Any, right: Any) -> Any:
        sides = {"before": (tables, free), "yours": (got["tables"], got["free"])}
        sides["right"] = (right["tables"], right["free"])
        versions = {
            name: (dict(zip("abcd", beams or [], strict=False)) | {"free": left}, {})
            for name, (beams, left) in sides.items()
        }
        return pools(versions, NUM_BLOCKS, 1)

    check(wraps(answer)(yours), library, _reorders(), picture=draw)


def figure_9() -> tuple[list[Table], list[int]]:
    """The tables of the paper's Figure 9 before the step, and whose continuation each new beam is."""
    return [[0, 1, 3, 5], [0, 1, 3, 6], [0, 1, 3, 7], [0, 2, 4, 8]], [1, 1, 2, 2]


def counts(tables: list[Table]) -> Table:
    """Reference counts of NUM_BLOCKS blocks."""
    return [sum(table.count(block) for table in tables) for block in range(NUM_BLOCKS)]


def _families(seed: int, count: int = 60) -> Iterator[tuple[list[Table], Table, Table]]:
    """Tables of up to four sequences that once were one, reference counts, and free blocks."""
    random = Random(seed)
    for _ in range(count):
        unused = random.sample(range(NUM_BLOCKS), NUM_BLOCKS)
        groups, tables = [list(range(random.randint(1, 4)))], [Table() for _ in range(4)]
        for _ in range(random.randint(1, 3)):
            groups = [part for group in groups for part in _split(random, group)]
            for group in groups:
                block = unused.pop()
                for index in group:
                    tables[index].append(block)
        tables = [table for table in tables if table]
        yield tables, counts(tables), unused


def _split(random: Random, group: list[int]) -> list[list[int]]:
    cut = random.randint(0, len(group))
    return [part for part in (group[:cut], group[cut:]) if part]


def _writes() -> Iterator[tuple[Table, int, Table, Table, int]]:
    random = Random(5)
    for tables, refs, free in _families(1):
        table, size = random.choice(tables), random.randint(1, 4)
        yield table, random.randrange((len(table) - 1) * size, len(table) * size), refs, free, size


def _reorders() -> Iterator[tuple[list[Table], list[int], Table, Table]]:
    random = Random(6)
    tables, parents = figure_9()
    yield tables, parents, counts(tables), list(range(NUM_BLOCKS - 1, 8, -1))
    for tables, refs, free in _families(3):
        yield tables, [random.randrange(len(tables)) for _ in tables], refs, free
