"""Lesson 10: what a block size costs and saves."""

from collections.abc import Callable, Iterator
from random import Random

from lessons.checks.core import check
from lessons.pictures_block_size import sequences, table_row

SIZES = (1, 2, 3, 4, 8, 16)


def waste_of(lengths: list[int], block_size: int) -> float:
    """Percent of the held slots that are empty, counted slot by slot."""
    held = empty = 0
    for length in lengths:
        slot = 0
        while slot < length or slot % block_size:
            held += 1
            empty += slot >= length
            slot += 1
    return 100 * empty / held


def slots_of(prefix: int, prompt: int, num_requests: int, block_size: int) -> int:
    """Slots of prompts that begin alike, by comparing what their blocks hold; only full blocks are shared."""
    tokens = [
        [("common", place) if place < prefix else (request, place) for place in range(prompt)]
        for request in range(num_requests)
    ]
    blocks = set[tuple[object, ...]]()
    for request, mine in enumerate(tokens):
        for first in range(0, prompt, block_size):
            content = tuple(mine[first : first + block_size])
            is_full = len(content) == block_size
            blocks.add(("shared", content) if is_full else ("own", request, first))
    return block_size * len(blocks)


def pieces_of(table: list[int]) -> int:
    """Copies that the blocks of a table take, walking along it."""
    pieces, previous = 0, None
    for block in table:
        pieces += previous is None or block != previous + 1
        previous = block
    return pieces


def length_cases(seed: int = 0, count: int = 40) -> Iterator[tuple[list[int], int]]:
    """Sequences of some tokens each, and a block size."""
    random = Random(seed)
    for place in range(count):
        yield [random.randint(1, 30) for _ in range(1 + place // 8)], random.choice(SIZES)


def prompt_cases(seed: int = 0, count: int = 60) -> Iterator[tuple[int, int, int, int]]:
    """Common tokens, tokens in all, requests, block size: also prefixes that end inside a block."""
    random = Random(seed)
    for _ in range(count):
        prompt = random.randint(1, 40)
        yield random.randint(0, prompt), prompt, random.randint(1, 5), random.choice(SIZES)


def tables(seed: int = 0, count: int = 60) -> Iterator[tuple[list[int]]]:
    """Block tables, from orderly to strewn."""
    random = Random(seed)
    for place in range(count):
        table = list(range(random.randint(1, 2 + place // 4)))
        for _ in range(random.randint(0, 3)):
            cut = random.randrange(len(table))
            table = table[cut:] + table[:cut]
        yield ([block + 5 for block in table],)


def waste(answer: Callable[[list[int], int], float]) -> None:
    """Checks `answer(lengths, block_size) -> percent`."""
    check(
        answer,
        waste_of,
        length_cases(),
        same=lambda one, other: one is not None and abs(one - other) < 1e-9,
        picture=lambda *case: sequences(case[0], case[1]),
    )


def sharing(answer: Callable[[int, int, int, int], int]) -> None:
    """Checks `answer(prefix, prompt, num_requests, block_size) -> slots`."""
    check(
        answer,
        slots_of,
        prompt_cases(),
        picture=lambda *case: sequences([case[1]] * case[2], case[3], common=case[0]),
    )


def pieces(answer: Callable[[list[int]], int]) -> None:
    """Checks `answer(table) -> copies`."""
    check(answer, pieces_of, tables(), picture=lambda *case: table_row(case[0]))
