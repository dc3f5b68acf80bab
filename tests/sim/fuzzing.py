"""Random servers and traces with several sequences, prefixes, windows and drafts."""

from dataclasses import replace
from random import Random
from typing import Any

from sim import Request, Trace


def random_trace(random: Random, *, widths: tuple[int, ...] = (1, 1, 1, 2, 3, 4)) -> Trace:
    """Up to ten requests, many of which begin alike and come at the same second."""
    span = random.choice((2, 20))
    arrivals = sorted(random.randint(0, span) for _ in range(random.randint(1, 12)))
    return Trace(
        "random", tuple(random_request(random, f"r{i}", at, widths) for i, at in enumerate(arrivals))
    )


def random_request(random: Random, id: str, arrival: int, widths: tuple[int, ...]) -> Request:
    prompt, output, width = random.randint(1, 40), random.randint(1, 25), random.choice(widths)
    tokens = random.choice(
        ([1] * prompt, [at // 20 for at in range(prompt)], [random.randint(1, 2) for _ in range(prompt)])
    )
    is_beam = random.random() < 0.5
    return Request(
        id=id,
        arrival_s=float(arrival),
        prompt=prompt,
        output=output,
        max_tokens=output + random.choice((0, 0, 5)),
        n=1 if is_beam else width,
        beam=width if is_beam else 1,
        tokens=tuple(tokens),
        priority=random.randint(0, 2),
    )


def random_paged_dials(random: Random, **fixed: Any) -> dict[str, Any]:
    """A small, tight paged server, in combinations that `Config` takes."""
    dials: dict[str, Any] = {
        "pool_tokens": random.choice((random.randint(40, 110), random.randint(40, 250))),
        "block_size": random.choice((1, 2, 4, 7, 16)),
        "max_len": random.choice((64, 70, 100)),
        "max_seqs": random.choice((1, 2, 4, 8, 256)),
        "max_batch_tokens": random.choice((None, 4, 16, 64, 300)),
        "chunked_prefill": random.random() < 0.5,
        "watermark": random.choice((0.0, 0.0, 0.1, 0.3)),
        "batching": random.choice(("continuous", "continuous", "static", "sequential")),
        "victim": random.choice(("youngest", "youngest", "fewest-tokens", "lowest-priority")),
        "prefix_cache": random.choice(("off", "hash", "radix")),
        "seed": random.randint(0, 99),
        "timing": "unit",
    } | fixed
    if not dials["chunked_prefill"]:
        dials["step_rule"] = random.choice(("mixed", "prefill-first"))
    if random.random() < 0.4:
        dials |= {"preempt": "swap", "swap_blocks": random.choice((None, 0, 4, 20))}
    if dials["prefix_cache"] != "off":
        dials["eviction"] = random.choice((None, "lru", "fifo"))
    return dials


def random_window(random: Random) -> dict[str, Any]:
    return {"window": random.randint(1, 30), "sinks": random.choice((None, 0, 1, 4, 9))}


def random_heavy(random: Random) -> dict[str, Any]:
    return {"keep_recent": random.randint(1, 12), "keep_heavy": random.randint(0, 12)}


def random_drafts(random: Random) -> dict[str, Any]:
    return {"speculate": random.randint(1, 5), "accept": random.choice((None, 0.0, 0.5, 1.0))}


def contending_groups(random: Random) -> Trace:
    """Samples and beams of which one request fits, and a few do not for long: they take turns."""
    rows: list[Request] = []
    for place in range(random.choice((3, 9))):
        request = random_request(random, f"r{place}", place // 3, (1, 2, 2, 3))
        prompt, output = random.randint(9, 26), random.randint(12, 22)
        tokens = tuple(random.choice(([1] * prompt, [place] * prompt)))
        rows.append(replace(request, prompt=prompt, output=output, max_tokens=output, tokens=tokens))
    return Trace("contending", tuple(rows))


def dials_of_contention(random: Random) -> dict[str, Any]:
    """Host memory holds some of those that are preempted; the others come back in small chunks."""
    dials: dict[str, Any] = {
        "pool_tokens": random.randint(104, 150),
        "block_size": random.choice((2, 4)),
        "max_len": 70,
        "chunked_prefill": True,
        "max_batch_tokens": random.choice((5, 7, 9, 30)),
        "victim": random.choice(("youngest", "fewest-tokens", "lowest-priority")),
        "prefix_cache": random.choice(("off", "hash")),
        "timing": "unit",
    }
    if random.random() < 0.6:
        dials |= {"preempt": "swap", "swap_blocks": random.choice((6, 12, 20, 30))}
    if random.random() < 0.6:
        dials["window"] = random.randint(2, 12)
    return dials
