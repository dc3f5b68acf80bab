"""Claims about time: requests and tokens per second."""

from functools import cache

from app.claims.claim import GUIDE, TOPIC, Claim, Finding, between, close, unknowable, where
from app.claims.runs import RESERVING, one_by_one, request, saturated, tokens_per_s
from sim import Config, Run, Trace, simulate
from sim.config import PAPER_POOL_TOKENS

SECONDS = (2, 4, 3, 1)  # the guide's four requests


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


def two_at_once(count: int) -> float:
    """Requests a second when two reservations fit and each request takes 8 steps of 1 s."""
    rows = tuple(request(f"r{k}", 8, 8) for k in range(count))
    config = Config(allocator="max", timing="unit", pool_tokens=2 * 512, max_len=512)
    return count / simulate(Trace("two", rows), config, record=False).report()["time_s"]


def rate_of_two() -> Finding:
    found = {"three requests": two_at_once(3), "a hundred": two_at_once(100)}
    why = "Requests of 8 s, two at a time: with an odd number the last one runs alone."
    return between(0.2, 0.3, found, "/s", why)


def requests_per_s(run: Run) -> float:
    return run.report()["throughput"]["requests_per_s"]


WHY_RATE = (
    "sharegpt and alpaca: OPT-13B on an A100-40GB by the roofline, the paper's lengths. The table names no "
    "model, device or length, on which a rate depends more than on how memory is managed."
)


def rate_without() -> Finding:
    found = {f"one by one, {name}": requests_per_s(one_by_one(name)) for name in ("sharegpt", "alpaca")}
    found["reserved, sharegpt"] = requests_per_s(saturated("sharegpt", "max"))
    found["the guide's four, one by one"] = len(SECONDS) / four("sequential")
    return between(0.1, 0.2, found, "/s", WHY_RATE)


def rate_with(allocator: str, low: float, high: float) -> Finding:
    found = {name: requests_per_s(saturated(name, allocator)) for name in ("sharegpt", "alpaca")}
    found["the guide's four"] = len(SECONDS) / four("continuous", allocator)
    return between(low, high, found, "/s", WHY_RATE)


@cache
def compressed(lengths: str) -> Run:
    """The requests of `saturated` with an int8 cache, in as many bytes."""
    spec = Config().spec
    slots = PAPER_POOL_TOKENS * spec.kv_bytes_per_token("fp16") // spec.kv_bytes_per_token("int8")
    config = Config(kv_dtype="int8", pool_tokens=slots // 16 * 16, seed=1)
    return simulate(saturated(lengths, "paged").trace, config, record=False)


def rate_compressed() -> Finding:
    found: dict[str, float] = {}
    for name in ("sharegpt", "alpaca"):
        found[f"int8, {name}"] = requests_per_s(compressed(name))
        found[f"fp16, {name}"] = requests_per_s(saturated(name, "paged"))
    why = f"{WHY_RATE} Of compression only quantized caches are modelled: they read less and hold more."
    return between(0.5, 1, found, "/s", why)


def compressed_length() -> Finding:
    slots, before = compressed("sharegpt").config.num_slots, PAPER_POOL_TOKENS
    why = (
        "The longest sequence is what the pool holds: the same bytes hold more tokens when each takes fewer."
    )
    return where({"int8": slots < before}, f"{slots:,} slots in int8, {before:,} in fp16", why)


def one_by_one_42() -> Finding:
    finished: dict[str, int] = {}
    for allocator in ("paged", "max"):
        rows = tuple(request(f"r{k}", 4000, 97) for k in range(42))
        config = Config(
            allocator=allocator, batching="sequential", timing="unit", pool_tokens=4096, max_len=4096
        )
        report = simulate(Trace("one by one", rows), config, record=False).report()
        finished[allocator] = report["requests"]["finished"]
    shown = ", ".join(f"{name} {count} of 42" for name, count in finished.items())
    why = "Served one after another, any number goes through the room of one, however it is managed."
    cases = {"paging can": finished["paged"] == 42, "nothing else can": finished["max"] < 42}
    return where(cases, f"finished: {shown}", why)


def cheaper() -> Finding:
    saved = 100 * (1 - 12_500 / 50_000)
    return unknowable(f"The division is right ({saved:g} %); no source has the prices or the load.")


SPEED = (
    Claim(
        "sequential-10s", GUIDE, "requests of 2, 4, 3 and 1 s, one after another", "10 s", one_after_another
    ),
    Claim("rate-0.4", GUIDE, "requests served per second that way", "0.4", rates),
    Claim("concurrent-4s", GUIDE, "the same with paging and continuous batching", "4 s", together),
    Claim("speedup-2.5x", GUIDE, "how much faster that is", "2.5x", speedup),
    Claim("rate-0.125", GUIDE, "three requests of 8 s one by one", "0.125 requests/s", three_in_24),
    Claim("rate-0.2-0.3", GUIDE, "the same, two at a time", "0.2 to 0.3 requests/s", rate_of_two),
    Claim("throughput-10-40x", GUIDE, "throughput gained by paging", "10 to 40x", ten_to_forty),
    Claim("throughput-2x", TOPIC, "throughput gained by paging, in the other document", "2x", twice),
    Claim("table-no-paging", GUIDE, "rate without paging, in a table", "0.1 to 0.2 requests/s", rate_without),
    Claim(
        "table-pool",
        GUIDE,
        "rate of a pool of size classes, in that table",
        "0.3 to 0.5 requests/s",
        lambda: rate_with("slab", 0.3, 0.5),
    ),
    Claim(
        "table-paged",
        GUIDE,
        "rate of paging, in that table",
        "1 to 4 requests/s",
        lambda: rate_with("paged", 1, 4),
    ),
    Claim(
        "table-compression",
        GUIDE,
        "rate of compressed caches, in that table",
        "0.5 to 1 requests/s",
        rate_compressed,
    ),
    Claim(
        "compression-length",
        GUIDE,
        "compressed caches limit the length of a sequence",
        "shorter",
        compressed_length,
    ),
    Claim(
        "28-42-sequentially",
        GUIDE,
        "paged, the same GPU serves 28 to 42 requests one after another",
        "42",
        one_by_one_42,
    ),
    Claim("cost-75-percent", GUIDE, "eight A100 become two: the monthly price falls", "75 %", cheaper),
)
