"""Claims about what an allocation takes, and when the first token comes of it."""

from collections.abc import Callable
from functools import cache
from statistics import median
from time import perf_counter

import torch

from app.claims.claim import GUIDE, Claim, Finding, between, where
from app.claims.runs import request
from app.claims.sizes import PER_TOKEN
from sim import Config, Trace, simulate
from sim.alloc import PLACEMENTS, ContiguousAllocator, KVAllocator, PagedAllocator
from sim.events import NullLog
from sim.request import SequenceGroup

FORWARD_MS = 50.0  # the guide's forward pass
CONTIGUOUS_MS, PAGED_MS = (100.0, 200.0), (1.0, 2.0)  # its allocations
NUM_TRIALS = 200
RANGE = 2048 * PER_TOKEN  # bytes: the 1 GiB that the guide reserves for a request


def admission_ms(build: Callable[[], KVAllocator]) -> float:
    """Median milliseconds of one admission in an empty pool of 15,728 slots."""
    seconds: list[float] = []
    for trial in range(NUM_TRIALS):
        allocator = build()
        group = SequenceGroup(request(f"r{trial}", 256, 256), order=trial)
        start = perf_counter()
        allocator.admit(group, 256, keep_watermark=False)
        seconds.append(perf_counter() - start)
    return 1e3 * median(seconds)


def reserve() -> float:
    """Reserving 2,048 slots of a pool that exists."""
    return admission_ms(
        lambda: ContiguousAllocator(15_728, "max", PLACEMENTS["buddy"](15_728), 2048, NullLog())
    )


def page() -> float:
    """Taking the 16 blocks of a prompt of 256."""
    return admission_ms(lambda: PagedAllocator(983, 16, NullLog()))


def median_ms(allocate: Callable[[], torch.Tensor], trials: int) -> float:
    """Milliseconds until a tensor is there; each is given back before the next."""
    seconds: list[float] = []
    for _ in range(trials):
        start = perf_counter()
        tensor = allocate()
        seconds.append(perf_counter() - start)
        del tensor
    return 1e3 * median(seconds)


@cache
def contiguous_ms() -> dict[str, float]:
    """Ways to come by contiguous memory. Memory that is asked for costs little until it is touched."""

    def empty() -> torch.Tensor:
        return torch.empty(RANGE, dtype=torch.uint8)

    return {
        "reserving in a pool": reserve(),
        "torch.empty": median_ms(empty, 5),
        "torch.zeros": median_ms(lambda: torch.zeros(RANGE, dtype=torch.uint8), 3),
        "torch.empty, written once": median_ms(lambda: empty().fill_(1), 3),
    }


def contiguous_allocation() -> Finding:
    why = (
        "Measured on this machine's CPU: 2,048 slots of a pool that exists, or 1 GiB of new memory. The "
        "guide's sketch makes zeros for each request, and so touches all of them; a server touches its pool "
        "once, when it starts. What is slow about reserving there is waiting for room."
    )
    return between(*CONTIGUOUS_MS, contiguous_ms(), " ms", why)


def paged_allocation() -> Finding:
    why = "Measured on this machine: 16 blocks for a prompt of 256 tokens."
    return between(*PAGED_MS, {"taking blocks": page()}, " ms", why)


def first_token() -> Finding:
    with_paging = FORWARD_MS + page()
    found = {name: (FORWARD_MS + ms) / with_paging for name, ms in contiguous_ms().items()}
    why = (
        f"With the guide's forward pass of {FORWARD_MS:.0f} ms and allocations as measured here. It depends "
        "on whether a request's memory is new, not on whether it is paged: where a pool exists, paging "
        "shortens the time to the first token by letting requests in sooner."
    )
    return between(0.95 * 3, 1.05 * 3, found, "x", why)


def sums_to(claimed: float, allocations: tuple[float, float]) -> Finding:
    found = {f"allocating in {ms:g} ms": ms + FORWARD_MS for ms in allocations}
    why = f"The guide's own figures, with its forward pass of {FORWARD_MS:.0f} ms."
    return between(0.95 * claimed, 1.05 * claimed, found, " ms", why)


def queueing() -> Finding:
    rows = tuple(request(f"r{k}", 512, 128, arrival_s=k * 0.05, max_tokens=1536) for k in range(120))
    ttft = {
        name: simulate(Trace("queue", rows), Config(allocator=name), record=False).report()["latency"][
            "ttft"
        ]["mean"]
        for name in ("max", "paged")
    }
    shown = ", ".join(f"{name} {seconds:.3g} s" for name, seconds in ttft.items())
    why = "Mean time to the first token at 20 requests/s, roofline: the requests that wait for a reservation."
    return where({"a loaded server": ttft["paged"] < ttft["max"]}, shown, why)


ALLOCATION = (
    Claim(
        "contiguous-100ms",
        GUIDE,
        "allocating a contiguous cache takes",
        "100 to 200 ms",
        contiguous_allocation,
    ),
    Claim("paged-1ms", GUIDE, "allocating pages takes", "1 to 2 ms", paged_allocation),
    Claim(
        "ttft-150ms",
        GUIDE,
        "the first token then takes, contiguous",
        "150 ms",
        lambda: sums_to(150, CONTIGUOUS_MS),
    ),
    Claim("ttft-51ms", GUIDE, "and paged", "51 ms", lambda: sums_to(51, PAGED_MS)),
    Claim("ttft-3x", GUIDE, "so the first token comes sooner by", "3x", first_token),
    Claim("ttft-lower", GUIDE, "paging lowers the time to the first token", "lower", queueing),
)
