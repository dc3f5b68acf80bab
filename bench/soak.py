"""A million requests through preemption, swap, sharing and the prefix cache: all memory free, none grown.

    python -m bench.soak                     # a quarter of an hour on a quiet machine
    python -m bench.soak --requests 20000    # seconds

Five servers, one for each of `LEGS`, live from the first request to the last and serve burst after burst,
step by step, as the engine does. After each burst every request has ended, every slot is free (or holds
finished content that can be evicted), and the books are checked; in the end the process is no larger than
after the first bursts. What is kept for a report is dropped after each burst, as a server would.
"""

import argparse
import gc
import os
import resource
import time
from dataclasses import dataclass
from random import Random
from typing import Any

import psutil

from sim import Config, Request, Trace
from sim.clock import PS_PER_S
from sim.events import NullLog
from sim.request import SequenceGroup
from sim.scheduler import Scheduler
from sim.series import Series
from sim.serve import SimulatedExecutor, make_server
from sim.server import Server
from sim.timing import make_timing

BURST = 200  # requests that come at about the same time
WARM_BURSTS = 20  # of each leg, before memory is first looked at
MOST_GROWTH_BYTES = 8 * 2**20
PAGED = {"pool_blocks": 96, "block_size": 4, "max_len": 256, "max_seqs": 32, "timing": "unit"}
LEGS: dict[str, dict[str, Any]] = {
    "recompute, prefix cache": {**PAGED, "preempt": "recompute", "prefix_cache": "hash"},
    "swap, sharing": {**PAGED, "preempt": "swap", "swap_blocks": 40},
    "swap, radix cache, chunks": {
        **PAGED, "preempt": "swap", "prefix_cache": "radix", "chunked_prefill": True, "max_batch_tokens": 64,
    },
    "mixed blocks, recompute": {**PAGED, "allocator": "mixed", "large_block_size": 16},
    "grow, compaction": {
        "allocator": "grow", "pool_tokens": 384, "max_len": 256, "max_seqs": 32, "timing": "unit",
        "placement": "first-fit", "compaction": "on-shortage",
    },
}  # fmt: skip


@dataclass(slots=True)
class Tally:
    """What a leg went through."""

    requests: int = 0
    steps: int = 0
    preemptions: int = 0
    swapped_blocks: int = 0
    copies: int = 0
    hit_tokens: int = 0
    rejected: int = 0


def burst(random: Random, number: int, start_s: float, allocator: str) -> list[Request]:
    """Requests of one to three samples or beams, whose prompts often start alike; some can never run."""
    requests: list[Request] = []
    for index in range(BURST):
        prompt, output = random.randint(1, 40), random.randint(1, 16)
        width = random.choice((1, 1, 1, 2, 3))
        family, common = random.randrange(8), min(prompt, random.choice((8, 16, 32)))
        own = random.randrange(10**6, 10**9)
        requests.append(
            Request(
                id=f"{number}-{index}", arrival_s=start_s + random.randint(0, 40),
                prompt=prompt, output=output,
                max_tokens=output + random.choice((0, 0, 0, 0, 9, 9, 9, 300)),
                tokens=tuple((family * 100 if place < common else own) + place for place in range(prompt)),
                **({random.choice(("n", "beam")): width} if width > 1 and allocator != "grow" else {}),
            )
        )  # fmt: skip
    return sorted(requests, key=lambda request: request.arrival_s)


def new_server(dials: dict[str, Any]) -> Server:
    """A server with nothing to do, and no log."""
    config = Config(**dials)
    executor = SimulatedExecutor(make_timing(config))
    return make_server(Trace("soak", ()), config, executor, NullLog(), Scheduler, check=False)


def serve_burst(server: Server, requests: list[Request], tally: Tally) -> None:
    """Serves one burst and looks at what is left. AssertionError for a leak."""
    for order, request in enumerate(requests, start=tally.requests):
        server.put(SequenceGroup(request, order))
    server.serve()
    server.allocator.check()
    allocator, scheduler = server.allocator, server.scheduler
    assert allocator.num_free_slots == allocator.num_slots, "slots are still held"
    assert not scheduler.has_work, "requests are left"
    ended = [group for group in server.groups if group.finish_s is not None or group.reject_reason]
    assert len(ended) == len(requests), "a request has neither finished nor been rejected"
    tally.requests += len(requests)
    tally.steps = server.num_steps
    tally.preemptions = scheduler.num_preemptions
    tally.swapped_blocks = allocator.traffic.swapped_blocks
    tally.copies = allocator.traffic.copies
    tally.hit_tokens += sum(group.hit_tokens for group in server.groups)
    tally.rejected += sum(group.reject_reason is not None for group in server.groups)
    server.groups.clear()
    server.series = Series()


def resident_bytes() -> int:
    """Of this process, after garbage has been collected."""
    gc.collect()
    return psutil.Process(os.getpid()).memory_info().rss


def soak(num_requests: int, seed: int = 0) -> dict[str, Any]:
    """Serves so many requests, an equal share by each leg. AssertionError when slots or memory are lost."""
    servers = {name: new_server(dials) for name, dials in LEGS.items()}
    legs, started = {name: Tally() for name in LEGS}, time.perf_counter()
    num_bursts = max(2, num_requests // (BURST * len(LEGS)))
    warm = min(WARM_BURSTS, num_bursts // 2)
    baseline = 0
    for number in range(num_bursts):
        if number == warm:
            baseline = resident_bytes()
        for name, dials in LEGS.items():
            random = Random(f"{seed} {number} {name}")
            server = servers[name]
            start_s = float(server.now_ps // PS_PER_S + 1)
            serve_burst(server, burst(random, number, start_s, dials.get("allocator", "paged")), legs[name])
    growth = resident_bytes() - baseline
    assert growth <= MOST_GROWTH_BYTES, f"the process has grown by {growth:,} B"
    return {
        "legs": legs,
        "seconds": time.perf_counter() - started,
        "resident_bytes": baseline,
        "growth_bytes": growth,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    found = soak(given.requests, given.seed)
    names = ("requests", "steps", "preemptions", "swapped_blocks", "copies", "hit_tokens", "rejected")
    print(f"{'':<28}" + "".join(f"{name.replace('_', ' '):>16}" for name in names))
    for leg, tally in found["legs"].items():
        print(f"{leg:<28}" + "".join(f"{getattr(tally, name):>16,}" for name in names))
    total = sum(tally.requests for tally in found["legs"].values())
    bursts, seconds = total // BURST, found["seconds"]
    print(f"{total:,} requests in {seconds:,.0f} s; every slot free after each of {bursts:,} bursts")
    print(
        f"resident {found['resident_bytes'] / 2**20:.1f} MiB after the first bursts, "
        f"{found['growth_bytes'] / 2**20:+.1f} MiB at the end, {found['peak_bytes'] / 2**20:.1f} MiB at most"
    )


if __name__ == "__main__":
    main()
