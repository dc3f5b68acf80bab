"""Lesson 12: speculation, windows, and bytes on several devices."""

from collections.abc import Callable, Iterator
from itertools import product
from random import Random

from lessons.checks.core import check
from lessons.pictures_beyond import kept_tokens
from lessons.pictures_card import card_of
from sim.errors import InputError
from sim.horizon import SlidingWindow
from sim.models import MODELS, ModelSpec
from sim.parallel import shard


def tokens_of(num_drafts: int, accept: float) -> float:
    """Mean tokens of a step, by going through everything that can happen to its drafts."""
    mean = 0.0
    for drafts in product((True, False), repeat=num_drafts):
        chance = 1.0
        for is_right in drafts:
            chance *= accept if is_right else 1 - accept
        num_right = next((place for place, is_right in enumerate(drafts) if not is_right), num_drafts)
        mean += chance * (num_right + 1)
    return mean


def blocks_of(stored: int, window: int, sinks: int, block_size: int) -> list[int]:
    """The simulator's rule, block by block; a block that is not full yet is always kept."""
    horizon = SlidingWindow(window, sinks)
    dropped = horizon.num_dropped(stored, is_prefilling=False)
    order = set(range(sinks, sinks + dropped))
    held = list[int]()
    for block in range(-(-stored // block_size)):
        tokens = range(block * block_size, (block + 1) * block_size)
        if tokens.stop > stored or not order.issuperset(tokens):
            held.append(block)
    return held


def slots_of(memory_bytes: int, ranks: int, model: ModelSpec, kv_dtype: str) -> int:
    """Slots beside the weights of one rank; 0 where the weights do not fit."""
    try:
        return shard(model, ranks).max_slots(memory_bytes, kv_dtype=kv_dtype)
    except InputError:
        return 0


def guesses(seed: int = 0, count: int = 40) -> Iterator[tuple[int, float]]:
    """Drafts and the chance of each; also none, never and always."""
    random = Random(seed)
    yield from ((0, 0.5), (3, 0.0), (3, 1.0))
    for place in range(count):
        yield random.randint(0, 1 + place // 6), round(random.random(), 2)


def windows(seed: int = 0, count: int = 60) -> Iterator[tuple[int, int, int, int]]:
    """Stored tokens, window, sinks, block size; short sequences first."""
    random = Random(seed)
    for place in range(count):
        yield random.randint(1, 6 + place), random.randint(2, 12), random.randint(0, 5), random.randint(1, 6)


def servers(seed: int = 0, count: int = 60) -> Iterator[tuple[int, int, ModelSpec, str]]:
    """Memory of a device, devices, model and dtype of the cache."""
    random = Random(seed)
    for _ in range(count):
        model = MODELS[random.choice(("llama-2-7b", "llama-2-70b", "llama-3-8b", "llama-3-70b"))]
        ranks, dtype = random.choice((1, 2, 4, 8, 16, 32)), random.choice(("fp16", "int8"))
        yield random.choice((24, 40, 80)) << 30, ranks, model, dtype


def speculation(answer: Callable[[int, float], float]) -> None:
    """Checks `answer(num_drafts, accept) -> tokens`, to a billionth."""

    def same(one: float | None, other: float) -> bool:
        return one is not None and abs(one - other) < 1e-9

    check(answer, tokens_of, guesses(), same=same, picture=card_of(answer))


def window(answer: Callable[[int, int, int, int], list[int]]) -> None:
    """Checks `answer(stored, window, sinks, block_size) -> logical blocks still held`."""
    check(answer, blocks_of, windows(), picture=lambda *case: kept_tokens(*case[:4]))


def several_devices(answer: Callable[[int, int, ModelSpec, str], int]) -> None:
    """Checks `answer(memory_bytes, ranks, model, kv_dtype) -> slots`."""
    check(answer, slots_of, servers(), picture=card_of(answer))
