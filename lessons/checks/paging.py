"""Lesson 4: block tables over a free list, and a whole server on them beside the library's."""

from collections.abc import Callable, Iterator
from functools import wraps
from random import Random
from typing import Any

from lessons.checks.core import check
from lessons.checks.tiny_server import (
    BLOCK_SIZE,
    POOL_BLOCKS,
    Grow,
    Release,
    Table,
    random_trace,
    serve,
    simulated,
)
from lessons.pictures_blocks import pool, pools

NUM_BLOCKS = 16


def slot_by_counting(table: Table, position: int, block_size: int) -> int:
    """Walks through the sequence's slots one by one."""
    slots = (block * block_size + offset for block in table for offset in range(block_size))
    for _ in range(position):
        next(slots)
    return next(slots)


def grow_one_by_one(table: Table, stored: int, num_tokens: int, block_size: int, free: Table) -> bool:
    """Makes room token by token, and takes it all back where that fails."""
    num_held, num_free = len(table), len(free)
    for position in range(stored, stored + num_tokens):
        if position < len(table) * block_size:
            continue
        if not free:
            while len(table) > num_held:
                free.append(table.pop())
            assert len(free) == num_free
            return False
        table.append(free.pop())
    return True


def release_one_by_one(table: Table, free: Table) -> None:
    """The last block goes first."""
    while table:
        free.append(table.pop())


def slot_of(answer: Callable[[Table, int, int], int]) -> None:
    """Checks `answer(table, position, block_size)`."""

    def draw(table: Table, position: int, size: int, got: Any, expected: int) -> Any:
        return pool({"a": table}, {"a": position + 1}, NUM_BLOCKS, size, {"yours": got, "right": expected})

    check(answer, slot_by_counting, _positions(), picture=draw)


def grow(answer: Grow) -> None:
    """Checks `answer(table, stored, num_tokens, block_size, free)`, with the lists that it leaves behind."""

    def after(function: Grow) -> Callable[..., Any]:
        @wraps(function)
        def on_copies(table: Table, stored: int, num_tokens: int, block_size: int, free: Table) -> Any:
            table, free = table[:], free[:]
            fits = function(table, stored, num_tokens, block_size, free)
            return fits, table, free

        return on_copies

    def draw(table: Table, stored: int, num_tokens: int, size: int, free: Table, got: Any, right: Any) -> Any:
        sides = {"before": table, "yours": got[1], "right": right[1]}
        versions = {name: ({"a": blocks}, {"a": stored}) for name, blocks in sides.items()}
        return pools(versions, NUM_BLOCKS, size)

    parts = ("what it returns", "table", "free")
    check(after(answer), after(grow_one_by_one), _growths(), parts=parts, picture=draw)


def release(answer: Release) -> None:
    """Checks `answer(table, free)` by the lists that it leaves behind."""

    def after(function: Release) -> Callable[..., Any]:
        @wraps(function)
        def on_copies(table: Table, free: Table) -> Any:
            table, free = table[:], free[:]
            function(table, free)
            return table, free

        return on_copies

    def draw(table: Table, free: Table, got: Any, right: Any) -> Any:
        sides = {"yours": got, "right": right}
        named = {side: ({"table": table, "free": free}, {}) for side, (table, free) in sides.items()}
        return pools(named, NUM_BLOCKS, 1)

    cases = ((table, free) for table, *_, free in _growths())
    check(after(answer), after(release_one_by_one), cases, parts=("table", "free"), picture=draw)


def whole_server(grow: Grow, release: Release) -> None:
    """Serves random requests with both; every block table at every step must be the simulator's."""
    yours: dict[int, list[dict[str, Table]]] = {}
    runs = {seed: simulated(seed) for seed in range(10)}

    def your_server(trace: int, step: int) -> dict[str, Table] | None:
        if trace not in yours:
            yours[trace] = serve(random_trace(trace), grow, release, runs[trace].num_steps)
        return yours[trace][step - 1] if step <= len(yours[trace]) else None

    def library(seed: int, step: int) -> Any:
        return runs[seed].at(step).block_tables

    def draw(seed: int, step: int, got: Any, right: Any) -> Any:
        stored = runs[seed].at(step).stored
        return pools({"yours": (got or {}, stored), "right": (right, stored)}, POOL_BLOCKS, BLOCK_SIZE)

    cases = ((seed, step) for seed, run in runs.items() for step in range(1, run.num_steps + 1))
    check(your_server, library, cases, picture=draw)


def _positions(seed: int = 1, count: int = 50) -> Iterator[tuple[Table, int, int]]:
    random = Random(seed)
    for _ in range(count):
        table = random.sample(range(NUM_BLOCKS), random.randint(1, 6))
        size = random.randint(1, 5)
        yield table, random.randrange(len(table) * size), size


def _growths(seed: int = 2, count: int = 100) -> Iterator[tuple[Table, int, int, int, Table]]:
    """Table, stored, tokens to make room for, block size, free list: sometimes too short."""
    random = Random(seed)
    for _ in range(count):
        blocks = random.sample(range(NUM_BLOCKS), NUM_BLOCKS)
        num_held, num_free, size = random.randint(0, 5), random.randint(0, 5), random.randint(1, 5)
        stored = random.randint((num_held - 1) * size + 1, num_held * size) if num_held else 0
        table, free = blocks[:num_held], blocks[num_held : num_held + num_free]
        yield table, stored, random.randint(1, 12), size, free
