"""Lesson 11: what memory itself says, and where two runs part."""

from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lessons.checks.core import check
from lessons.pictures_card import card_of
from lessons.pictures_measured import pool_map

Bits = NDArray[np.int32]
Mask = NDArray[np.bool_]
Tables = dict[str, list[int]]
SENTINEL = 0x7FA5A5A5  # a signaling NaN: nothing that computes can make it, see engine.sentinel
LEDGER = ("live", "reserved", "internal", "free")


def scan_of(bits: Bits) -> tuple[int, int]:
    """Slots written, and torn: element by element."""
    num_blocks, _, _, block_size, _, _ = bits.shape
    written = torn = 0
    for block in range(num_blocks):
        for slot in range(block_size):
            codes = {int(code) == SENTINEL for code in bits[block, :, :, slot].ravel()}
            written += False in codes
            torn += len(codes) == 2
    return written, torn


def pools(seed: int = 0, count: int = 20) -> Iterator[tuple[Bits]]:
    """Small pools [num_blocks, layers, 2, block_size, heads, dim], empty at first, later with torn slots."""
    random = np.random.default_rng(seed)
    for place in range(count):
        blocks, layers, size, heads = (int(number) for number in random.integers(1, 4, 4))
        bits = np.full((blocks, layers, 2, size, heads, 2), SENTINEL, np.int32)
        for _ in range(place):
            block, slot = int(random.integers(blocks)), int(random.integers(size))
            some = np.s_[block, :, :, slot] if random.random() < 0.7 else np.s_[block, 0, 0, slot]
            bits[some] = random.standard_normal(bits[some].shape).astype(np.float32).view(np.int32)
        yield (bits,)


def ledger_of(written: Mask, tables: Tables, final: dict[str, int], block_size: int) -> dict[str, int]:
    """The class of each slot, asked slot by slot."""
    counts = dict.fromkeys(LEDGER, 0)
    for slot in range(len(written)):
        kind = "free"
        for name, blocks in tables.items():
            for index, block in enumerate(blocks):
                if block == slot // block_size:
                    position = index * block_size + slot % block_size
                    kind = "reserved" if position < final[name] else "internal"
                    kind = "live" if written[slot] else kind
        counts[kind] += 1
    return counts


def servers(seed: int = 0, count: int = 40) -> Iterator[tuple[Mask, Tables, dict[str, int], int]]:
    """Which slots are written, who holds which blocks, and what each sequence will come to store."""
    random = Random(seed)
    for place in range(count):
        size, num_blocks = random.randint(1, 4), 3 + place // 4
        free, written = random.sample(range(num_blocks), num_blocks), np.zeros(num_blocks * size, np.bool_)
        tables, final = Tables(), dict[str, int]()
        while len(free) > 2 and len(tables) < 4:
            name, stored = f"r{len(tables)}", random.randint(1, size * min(3, len(free)))
            blocks = [free.pop() for _ in range(-(-stored // size))]
            for position in range(stored):
                written[blocks[position // size] * size + position % size] = True
            tables[name], final[name] = blocks, stored + random.randint(0, 5)
        yield written, tables, final, size


def difference_of(simulated: list[Tables], measured: list[Tables]) -> tuple[int, str] | None:
    """The step, from 1, and the sequence at which block tables part; by step, then by name."""
    for step, (one, other) in enumerate(zip(simulated, measured, strict=True), start=1):
        wrong = sorted(name for name in {*one, *other} if one.get(name) != other.get(name))
        if wrong:
            return step, wrong[0]
    return None


def histories(seed: int = 0, count: int = 40) -> Iterator[tuple[list[Tables], list[Tables]]]:
    """Block tables of every step, on two sides that agree or do not."""
    random = Random(seed)
    for place in range(count):
        one = [
            {name: [random.randint(0, 9) for _ in range(2)] for name in random.sample("abc", 2)}
            for _ in range(4)
        ]
        other = [dict(step) for step in one]
        for _ in range(place % 3):
            step = random.choice(other)
            name = random.choice("abc")
            if name in step and random.random() < 0.5:
                del step[name]
            else:
                step[name] = [random.randint(0, 9)]
        yield one, other


def scan(answer: Callable[[Bits], tuple[int, int]]) -> None:
    """Checks `answer(bits) -> (written, torn)`."""

    def picture(*case: Any) -> Any:
        by_slot = (case[0] != SENTINEL).transpose(0, 3, 1, 2, 4, 5)
        is_written = by_slot.reshape(by_slot.shape[0] * by_slot.shape[1], -1)
        some, every = is_written.any(axis=1), is_written.all(axis=1)
        return pool_map(some, {}, case[0].shape[3], torn=some & ~every)

    check(answer, scan_of, pools(), picture=picture)


def ledger(answer: Callable[[Mask, Tables, dict[str, int], int], Mapping[str, int]]) -> None:
    """Checks `answer(written, tables, final, block_size) -> {"live": ..., ...}`."""

    def picture(*case: Any) -> Any:
        return pool_map(case[0], case[1], case[3])

    check(answer, ledger_of, servers(), picture=picture)


def first_difference(answer: Callable[[list[Tables], list[Tables]], tuple[int, str] | None]) -> None:
    """Checks `answer(simulated, measured) -> (step, sequence)`, or None."""
    check(answer, difference_of, histories(), picture=card_of(answer))
