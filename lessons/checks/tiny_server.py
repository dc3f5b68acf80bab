"""The smallest server that can run on a student's allocator: DESIGN's step rules without preemption."""

from collections.abc import Callable
from random import Random

from sim import Config, Request, Run, Trace, simulate

Table = list[int]
Grow = Callable[[Table, int, int, int, Table], bool]
Release = Callable[[Table, Table], None]
POOL_BLOCKS, BLOCK_SIZE = 24, 4


def serve(trace: Trace, grow: Grow, release: Release, most: int) -> list[dict[str, Table]]:
    """The block tables after each step, for at most so many steps."""
    free, size = list(range(POOL_BLOCKS - 1, -1, -1)), BLOCK_SIZE
    waiting, emitted = list(trace.requests), dict[Request, int]()
    tables, steps = dict[str, Table](), list[dict[str, Table]]()
    now = 0.0
    while (waiting or emitted) and len(steps) < most:
        now = now if emitted else max(now, waiting[0].arrival_s)
        for request, count in emitted.items():
            grow(tables[request.id], request.prompt + count - 1, 1, size, free)
        while waiting and waiting[0].arrival_s <= now:
            table: Table = []
            if not grow(table, 0, waiting[0].prompt, size, free):
                break
            tables[waiting[0].id] = table
            emitted[waiting.pop(0)] = 0
        steps.append({name: table[:] for name, table in tables.items()})
        for request in list(emitted):
            emitted[request] += 1
            if emitted[request] == request.output:
                del emitted[request]
                release(tables.pop(request.id), free)
        now += 1.0
    return steps


def simulated(seed: int) -> Run:
    """The simulator's run of `random_trace(seed)` over the same pool."""
    config = Config(
        allocator="paged", pool_blocks=POOL_BLOCKS, block_size=BLOCK_SIZE, timing="unit", max_len=64
    )
    return simulate(random_trace(seed), config)


def random_trace(seed: int) -> Trace:
    """Ten requests that never need more than the pool: at most three run at once."""
    random = Random(seed)
    requests: list[Request] = []
    for index in range(10):
        prompt, output = random.randint(1, 14), random.randint(1, 9)
        arrival = 3.0 * index + random.randint(0, 2)
        requests.append(
            Request(
                id="abcdefghij"[index], arrival_s=arrival, prompt=prompt, output=output, max_tokens=output
            )
        )
    return Trace(f"random {seed}", tuple(requests))
