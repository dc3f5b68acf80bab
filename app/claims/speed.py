"""Claims about time: throughput, first tokens, what an allocation takes."""

from collections.abc import Callable
from statistics import median
from time import perf_counter

import torch

from app.claims.claim import GUIDE, TOPIC, Claim, Finding, between, close, unknowable, where
from app.claims.runs import RESERVING, one_by_one, request, saturated, tokens_per_s
from app.claims.sizes import PER_TOKEN
from sim import Config, Trace, simulate
from sim.alloc import PLACEMENTS, ContiguousAllocator, KVAllocator, PagedAllocator
from sim.events import NullLog
from sim.request import SequenceGroup

SECONDS = (2, 4, 3, 1)  # the guide's four requests
FORWARD_MS = 50.0  # the guide's forward pass
NUM_TRIALS = 200


def four(batching: str, allocator: str = "paged", pool_tokens: int = 4096) -> float:
    """Seconds that requests of 2, 4, 3 and 1 steps take, at 1 s a step whatever the batch."""
    rows = tuple(request(f"r{k}", 8, seconds) for k, seconds in enumerate(SECONDS, start=1))
    config = Config(
        allocator=allocator, batching=batching, timing="unit", pool_tokens=pool_tokens, max_len=512
    )
    return simulate(Trace("four", rows), config, record=False).report()["time_s"]


def one_after_another() -> Finding:
    return close(
        10, four("sequential"), f"{four('sequential'):g} s", "2 + 4 + 3 + 1 steps of 1 s.", tolerance=0.01
    )


def together() -> Finding:
    found = {f"{name}, room for all": four("continuous", name) for name in ("paged", "max")}
    found["max, room for two"] = four("continuous", "max", 1024)
    why = (
        "If a step takes the same time whatever the batch, which holds while decoding is bound by memory. "
        "It is continuous batching that does it: contiguous memory does the same where it has room."
    )
    return between(4, 4, found, " s", why)


def speedup() -> Finding:
    ratio = four("sequential") / four("continuous")
    return close(2.5, ratio, f"{ratio:.2g}x", "10 s over 4 s, under the same assumption.", tolerance=0.01)


def rates() -> Finding:
    rate = len(SECONDS) / four("sequential")
    return close(0.4, rate, f"{rate:g} requests/s", "Four requests in 10 s.", tolerance=0.01)


def three_in_24() -> Finding:
    rows = tuple(request(f"r{k}", 8, 8) for k in range(3))
    config = Config(batching="sequential", timing="unit")
    seconds = simulate(Trace("three", rows), config, record=False).report()["time_s"]
    return close(0.125, 3 / seconds, f"{3 / seconds:g} requests/s", "Three requests of 8 s, one by one.")


def ratios() -> dict[str, float]:
    """Throughput of paged over others, saturated, ShareGPT lengths, roofline of an A100-40GB."""
    paged = tokens_per_s(saturated("sharegpt", "paged"))
    found = {f"over {name}": paged / tokens_per_s(saturated("sharegpt", name)) for name in RESERVING}
    return {**found, "over one by one": paged / tokens_per_s(one_by_one("sharegpt"))}


WHY_RATIO = (
    "OPT-13B on an A100-40GB by the roofline, every request there from the start. The paper says 2 to 4x "
    "over the best systems of its time; larger figures compare with serving one by one."
)


def ten_to_forty() -> Finding:
    return between(10, 40, ratios(), "x", WHY_RATIO)


def twice() -> Finding:
    found = {name: ratio for name, ratio in ratios().items() if name != "over one by one"}
    return between(1.5, 2.5, found, "x", WHY_RATIO)


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


def fresh_ms() -> float:
    """Asking the framework for 2,048 slots of Llama 7B, without writing them."""
    seconds: list[float] = []
    for _ in range(5):
        start = perf_counter()
        torch.empty(2048 * PER_TOKEN, dtype=torch.uint8)
        seconds.append(perf_counter() - start)
    return 1e3 * median(seconds)


def contiguous_allocation() -> Finding:
    found = {"reserving in a pool": reserve(), "asking the framework": fresh_ms()}
    why = "Measured on this machine's CPU: reservation is slow by waiting for room, not by allocating."
    return between(100, 200, found, " ms", why)


def paged_allocation() -> Finding:
    why = "Measured on this machine: 16 blocks for a prompt of 256 tokens."
    return between(1, 2, {"taking blocks": page()}, " ms", why)


def first_token() -> Finding:
    without, with_paging = FORWARD_MS + reserve(), FORWARD_MS + page()
    ratio = without / with_paging
    why = (
        f"With the guide's forward pass of {FORWARD_MS:.0f} ms and allocations as measured here. Paging "
        "shortens the time to the first token by letting requests in sooner, not by allocating faster."
    )
    return close(3, ratio, f"{ratio:.3g}x", why)


def cheaper() -> Finding:
    saved = 100 * (1 - 12_500 / 50_000)
    return unknowable(f"The division is right ({saved:g} %); no source has the prices or the load.")


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


SPEED = (
    Claim(
        "sequential-10s", GUIDE, "requests of 2, 4, 3 and 1 s, one after another", "10 s", one_after_another
    ),
    Claim("rate-0.4", GUIDE, "requests served per second that way", "0.4", rates),
    Claim("concurrent-4s", GUIDE, "the same with paging and continuous batching", "4 s", together),
    Claim("speedup-2.5x", GUIDE, "how much faster that is", "2.5x", speedup),
    Claim("rate-0.125", GUIDE, "three requests of 8 s one by one", "0.125 requests/s", three_in_24),
    Claim("throughput-10-40x", GUIDE, "throughput gained by paging", "10 to 40x", ten_to_forty),
    Claim("throughput-2x", TOPIC, "throughput gained by paging, in the other document", "2x", twice),
    Claim(
        "contiguous-100ms",
        GUIDE,
        "allocating a contiguous cache takes",
        "100 to 200 ms",
        contiguous_allocation,
    ),
    Claim("paged-1ms", GUIDE, "allocating pages takes", "1 to 2 ms", paged_allocation),
    Claim("ttft-3x", GUIDE, "so the first token comes sooner by", "3x", first_token),
    Claim("ttft-lower", GUIDE, "paging lowers the time to the first token", "lower", queueing),
    Claim("cost-75-percent", GUIDE, "eight A100 become two: the monthly price falls", "75 %", cheaper),
)
