"""Traces made from numbers."""

from collections.abc import Sequence
from random import Random
from typing import Any

from sim import Request, Trace
from sim.alloc import ALLOCATORS, PLACEMENTS
from sim.cache import PREFIX_CACHES
from sim.scopes import APPLIES_TO
from sim.victims import VICTIMS

Row = tuple[float, ...]


def requests(*rows: Row, name: str = "made") -> Trace:
    """A trace of r0, r1, ... from (prompt, output, arrival = 0, max_tokens = output)."""
    return Trace(name, tuple(request(f"r{index}", *row) for index, row in enumerate(rows)))


def request(
    id: str, prompt: int, output: int, arrival_s: float = 0.0, max_tokens: int | None = None, **more: Any
) -> Request:
    """One request; `more` are its other fields."""
    return Request(
        id=id,
        arrival_s=float(arrival_s),
        prompt=prompt,
        output=output,
        max_tokens=max_tokens or output,
        **more,
    )


def random_rows(random: Random, count: int, *, longest: int = 30, span_s: int = 60) -> list[Row]:
    """Rows in order of arrival, many at the same second; some stop before max_tokens."""
    arrivals = sorted(random.randint(0, span_s) for _ in range(count))
    rows: list[Row] = []
    for arrival in arrivals:
        output = random.randint(1, longest)
        rows.append((random.randint(1, longest), output, arrival, output + random.choice((0, 0, 5))))
    return rows


def random_trace(random: Random, count: int, *, longest: int = 30, span_s: int = 60) -> Trace:
    """`random_rows` as requests of one to three samples or beams, whose prompts often start alike."""
    rows = random_rows(random, count, longest=longest, span_s=span_s)
    made = [
        request(f"r{index}", *row, **_width(random, int(row[1])), **content(random, int(row[0])))
        for index, row in enumerate(rows)
    ]
    return Trace("random", tuple(made))


def _width(random: Random, output: int) -> dict[str, Any]:
    width = random.choice((2, 3))
    parents = tuple(tuple(sorted(random.choices(range(width), k=width))) for _ in range(output - 1))
    return random.choice(
        ({}, {}, {}, {"n": width}, {"n": width}, {"beam": width}, {"beam": width, "beam_parents": parents})
    )


def content(random: Random, prompt: int) -> dict[str, Any]:
    """What a prompt holds, in each of the ways of a trace; prompts of one family start alike."""
    family, common = random.randrange(3), min(prompt, random.choice((3, 8, 12, 30)))
    own = random.randrange(10**6, 10**9)
    tokens = [family * 1000 + place if place < common else own + place for place in range(prompt)]
    size = random.choice((2, 4, 5))
    names = [
        family * 1000 + place if (place + 1) * size <= common else own + place
        for place in range(-(-prompt // size))
    ]
    return random.choice(
        (
            {},
            {"tokens": tuple(tokens)},
            {"tokens": tuple(tokens)},
            {"blocks": tuple(names), "block_tokens": size},
            {"prefix": f"family {family}", "prefix_tokens": common},
        )
    )


def random_dials(
    random: Random, allocators: Sequence[str] = ("paged", "paged", "paged", *ALLOCATORS)
) -> dict[str, Any]:
    """A small, tight server: any allocator, placement and rule, in combinations that `Config` takes."""
    dials: dict[str, Any] = {
        "allocator": random.choice(allocators),
        "placement": random.choice(list(PLACEMENTS)),
        "block_size": random.choice((1, 2, 4, 8, 16)),
        "pool_tokens": random.randint(80, 200),
        "max_len": random.randint(64, 80),
        "max_seqs": random.choice((1, 3, 8, 100)),
        "batching": random.choice(("continuous", "continuous", "static", "sequential")),
        "step_rule": random.choice(("mixed", "prefill-first")),
        "watermark": random.choice((0.0, 0.0, 0.05, 0.3)),
        "preempt": random.choice(("recompute", "swap")),
        "victim": random.choice(("youngest", "youngest", *VICTIMS)),
        "prefix_cache": random.choice(("off", *PREFIX_CACHES)),
        "timing": random.choice(("unit", "roofline")),
    }
    dials["swap_blocks"] = random.choice((None, 0, 2, 5, 30)) if dials["preempt"] == "swap" else None
    if dials["step_rule"] == "mixed":
        dials["chunked_prefill"] = random.random() < 0.5
    dials["max_batch_tokens"] = random.choice((None, 80, 16 if dials.get("chunked_prefill") else 100))
    dials["page_size"] = random.choice(("16KiB", "64KiB", "128KiB"))  # of 1, 6 and 12 tokens
    useless = {name for name, scope in APPLIES_TO.items() if dials["allocator"] not in scope.allocators}
    return {name: value for name, value in dials.items() if name not in useless}
