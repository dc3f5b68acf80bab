"""Lesson 9: names of blocks, hits, and which block leaves a full cache."""

from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import wraps
from itertools import count
from random import Random
from typing import Any

from lessons.checks.core import check
from lessons.pictures_prefix import found_by, prompts
from sim import Request
from sim.cache import HashCache, PrefixIndex
from sim.hits import POLICIES
from sim.prompts import PromptBlocks
from sim.request import Sequence

Names = list[Hashable]
NUM_PROMPTS = 5


def block_names(answer: Callable[[str, int], Names]) -> None:
    """Checks `answer(tokens, block_size)`: names must be equal exactly where the library's are."""

    def yours(texts: list[str], block_size: int) -> Any:
        return numbered([answer(text, block_size) for text in texts])

    def library(texts: list[str], block_size: int) -> Any:
        whole = [text[: len(text) // block_size * block_size] for text in texts]
        return numbered(PromptBlocks.of([request(text) for text in whole], block_size).blocks)

    def draw(texts: list[str], block_size: int, got: Any, right: Any) -> Any:
        rows = {}
        for who, names in (("yours", got), ("right", right)):
            for place, text in enumerate(texts):
                said = names[place] if isinstance(names, list) else None
                rows[f"{who} {place}"] = (cut(text, block_size), said)
        return prompts(rows)

    random = Random(1)
    cases = ((_texts(random), random.randint(1, 4)) for _ in range(40))
    check(wraps(answer)(yours), library, cases, picture=draw)


def num_hits(answer: Callable[[Names, set[Hashable], int, int], int]) -> None:
    """Checks `answer(names, cached, num_tokens, block_size)` against the library's prefix cache."""
    texts: dict[tuple[Any, ...], str] = {}

    def cases() -> Iterator[tuple[Names, set[Hashable], int, int]]:
        random = Random(2)
        for _ in range(60):
            *earlier, last = _texts(random)
            size = random.randint(1, 4)
            cached = {text[:end] for text in earlier for end in _ends(text, size)}
            cached -= {name for name in sorted(cached) if random.random() < 0.2}  # those were driven out
            case = ([last[:end] for end in _ends(last, size)], cached, len(last), size)
            texts[_key(case)] = last
            yield case

    def library(names: Names, cached: set[Hashable], num_tokens: int, block_size: int) -> int:
        last = texts[_key((names, cached, num_tokens, block_size))]
        return found_by_library(last, cached, block_size)

    def draw(*case: Any) -> Any:
        names, cached, _, size, got, right = case
        known = [name if name in cached else None for name in names]
        rows = dict.fromkeys(("yours", "right"), (cut(names[-1] if names else "", size), known))
        return prompts(rows, {"yours": got if isinstance(got, int) else 0, "right": right})

    def yours(names: Names, cached: set[Hashable], num_tokens: int, block_size: int) -> int:
        return answer(names[:], set(cached), num_tokens, block_size)

    check(wraps(answer)(yours), library, cases(), picture=draw)


def found_by_library(text: str, cached: Iterable[Any], block_size: int) -> int:
    """Blocks at the start of a prompt that the library finds, if the last blocks of `cached` are kept."""
    cache = HashCache()
    index, blocks = PrefixIndex(cache, block_size), count()
    for name in cached:
        table = [next(blocks) for _ in range(len(name) // block_size)]
        index.remember(Sequence(request(name)), table, len(name))
        for block in table[:-1]:
            cache.forget(block)
    return len(index.find(Sequence(request(text))))


def touch(answer: Callable[[dict[Hashable, None], Names, int], None]) -> None:
    """Checks `answer(cached, names, capacity)` by the blocks that each of a row of prompts finds."""

    def yours(all_names: list[list[int]], capacity: int) -> list[int]:
        cached: dict[Hashable, None] = {}
        counts: list[int] = []
        for names in all_names:
            missing = (place for place, name in enumerate(names) if name not in cached)
            counts.append(next(missing, len(names)))
            answer(cached, list(names), capacity)
        return counts

    def library(all_names: list[list[int]], capacity: int) -> list[int]:
        return POLICIES["lru"]([tuple(names) for names in all_names], capacity)

    random = Random(3)
    cases: list[tuple[list[list[int]], int]] = []
    for _ in range(40):
        blocks = PromptBlocks.of([request(text) for text in _texts(random, 12)], 2).blocks
        cases.append(([list(names) for names in blocks], random.randint(1, 12)))
    check(wraps(answer)(yours), library, cases, picture=lambda *case: found_by(case[-2], case[-1]))


def request(text: str, arrival_s: float = 0.0) -> Request:
    """A request whose tokens are the characters of `text`, and which emits one token."""
    tokens = tuple(map(ord, text))
    return Request(
        id=f"{arrival_s:g}", arrival_s=arrival_s, prompt=len(text), output=1, max_tokens=1, tokens=tokens
    )


def cut(text: str, block_size: int) -> list[str]:
    """The text's blocks, a partial last one included."""
    return [text[start : start + block_size] for start in range(0, len(text), block_size)]


def numbered(names: Any) -> Any:
    """The same lists with a number for each name, in the order in which they are met."""
    seen: dict[Hashable, int] = {}
    return [[seen.setdefault(name, len(seen)) for name in some] for some in names]


def _ends(text: str, size: int) -> range:
    return range(size, len(text) + 1, size)


def _key(case: Any) -> tuple[Any, ...]:
    names, cached, num_tokens, size = case
    return (*names, frozenset(cached), num_tokens, size)


def _texts(random: Random, count: int = NUM_PROMPTS) -> list[str]:
    """Texts that begin alike here and there, and repeat themselves."""
    texts = ["".join(random.choices("ab", k=random.randint(1, 10)))]
    while len(texts) < count:
        kept = random.choice(texts)
        kept = kept[: random.randint(0, len(kept))]
        texts.append((kept + "".join(random.choices("ab", k=random.randint(1, 6))))[:14])
    return texts
