"""Traces made from numbers."""

from random import Random
from typing import Any

from sim import Request, Trace
from sim.alloc import ALLOCATORS, PLACEMENTS

Row = tuple[float, ...]


def requests(*rows: Row, name: str = "made") -> Trace:
    """A trace of r0, r1, ... from (prompt, output, arrival = 0, max_tokens = output)."""
    return Trace(name, tuple(_request(f"r{index}", *row) for index, row in enumerate(rows)))


def _request(
    id: str, prompt: int, output: int, arrival_s: float = 0.0, max_tokens: int | None = None
) -> Request:
    return Request(
        id=id, arrival_s=float(arrival_s), prompt=prompt, output=output, max_tokens=max_tokens or output
    )


def random_rows(random: Random, count: int, *, longest: int = 30, span_s: int = 60) -> list[Row]:
    """Rows in order of arrival, many at the same second; some stop before max_tokens."""
    arrivals = sorted(random.randint(0, span_s) for _ in range(count))
    rows: list[Row] = []
    for arrival in arrivals:
        output = random.randint(1, longest)
        rows.append((random.randint(1, longest), output, arrival, output + random.choice((0, 0, 5))))
    return rows


def random_dials(random: Random) -> dict[str, Any]:
    """A small, tight server: any allocator, placement and rule, in combinations that `Config` takes."""
    dials: dict[str, Any] = {
        "allocator": random.choice(("paged", "paged", "paged", *ALLOCATORS)),
        "placement": random.choice(list(PLACEMENTS)),
        "block_size": random.choice((1, 2, 4, 8, 16)),
        "pool_tokens": random.randint(80, 200),
        "max_len": random.randint(64, 80),
        "max_seqs": random.choice((1, 3, 8, 100)),
        "batching": random.choice(("continuous", "continuous", "static", "sequential")),
        "step_rule": random.choice(("mixed", "prefill-first")),
        "watermark": random.choice((0.0, 0.0, 0.05, 0.3)),
        "preempt": random.choice(("recompute", "swap")),
        "timing": random.choice(("unit", "roofline")),
    }
    if dials["preempt"] == "swap":
        dials["swap_blocks"] = random.choice((None, 0, 2, 5, 30))
    if dials["step_rule"] == "mixed":
        dials["chunked_prefill"] = random.random() < 0.5
    dials["max_batch_tokens"] = random.choice((None, 80, 16 if dials.get("chunked_prefill") else 100))
    return dials
