"""Claims about what memory is wasted, and on what."""

from app.claims.claim import GUIDE, TOPIC, Claim, Finding, between, close, where
from app.claims.runs import RESERVING, four_requests, request, saturated, shares_while_waiting, waste
from app.claims.sizes import GB, LLAMA
from sim import Config, Trace, simulate
from sim.hardware import get_hardware

LENGTHS = ("sharegpt", "alpaca")
USED = (256, 512, 128, 1024)


def waste_88() -> Finding:
    reserved, used = 4 * 4096, sum(USED)
    percent = 100 * (1 - used / reserved)
    run = four_requests("max")
    seen = 100 * (1 - max(run.series.column("live").tolist()) / reserved)
    why = f"1 - {used:,} / {reserved:,}, once all are complete; {seen:.1f} % at the best step of a run."
    return close(88, percent, f"{percent:.1f} %", why, tolerance=0.01)


def reserved_total() -> Finding:
    run = four_requests("max")
    held = int((run.series.column("pool") - run.series.column("free")).max())
    return close(16_384, held, f"{held:,} slots held", "Four ranges of 4,096, from the simulated run.")


def used_total() -> Finding:
    return close(1920, sum(USED), f"{sum(USED):,} tokens", "256 + 512 + 128 + 1,024.")


def request_5() -> Finding:
    alone = four_requests("max")
    first = min(alone.requests, key=lambda row: row["finish"])
    fifth = request("r5", 1024, 1025, arrival_s=first["finish"], max_tokens=1025)
    run = four_requests("max", fifth)
    row = next(row for row in run.requests if row["id"] == "r5")
    waited = row["first_token"] - row["arrival"] - 1  # its prefill takes a step of 1 s
    why = (
        f"The range of {first['id']} came back whole: 4,096 slots in one piece are more than the 2,048 asked "
        "for. No hole had formed, because all reservations are equally long."
    )
    return where({"it must wait": waited > 0}, f"waits {waited:g} s after its arrival", why)


def old_systems() -> Finding:
    found = {
        f"{name}, {lengths}": waste(saturated(lengths, name)) for lengths in LENGTHS for name in RESERVING
    }
    why = (
        "Of the slots not free, by lengths of the paper; its Figure 2 says 61.8 to 79.6 % for ShareGPT. "
        "Short requests waste more of a reservation made for long ones."
    )
    return between(60, 80, found, " %", why)


def paged_waste() -> Finding:
    found = {
        f"blocks of {size}, {lengths}": waste(saturated(lengths, "paged", size))
        for lengths in LENGTHS
        for size in (16, 64)
    }
    return between(
        5, 10, found, " %", "Waste is half a block a sequence: it depends on block size and length."
    )


def utilization() -> Finding:
    found = {lengths: shares_while_waiting(saturated(lengths, "paged"))["live"] for lengths in LENGTHS}
    why = "Live slots of the whole pool while requests wait; the paper's Figure 2 says 96.3 %."
    return between(95, 100, found, " %", why)


def no_fragmentation() -> Finding:
    shares = shares_while_waiting(saturated("alpaca", "paged"))
    inside, outside = shares["internal"], shares["external"]
    why = "Any free block will do, so none is external; the tail of each last block stays empty."
    return where(
        {"external fragmentation": outside == 0, "internal fragmentation": inside == 0},
        f"external {outside:.2f} %, internal {inside:.2f} % of the pool (Alpaca lengths)",
        why,
    )


def memory_pool() -> Finding:
    found = {lengths: waste(saturated(lengths, "slab")) for lengths in LENGTHS}
    return between(
        36, 44, found, " %", "Size classes of powers of two, grown into as needed (allocator slab)."
    )


def half_the_memory() -> Finding:
    found: dict[str, float] = {}
    for name in RESERVING:
        live = {a: shares_while_waiting(saturated("sharegpt", a))["live"] for a in (name, "paged")}
        found[f"against {name}"] = 100 * (1 - live[name] / live["paged"])
    why = "Slots that the same live tokens take, paged against reserved (ShareGPT lengths)."
    return between(45, 55, found, " %", why)


def limits_to_two() -> Finding:
    def beside_weights(dtype: str) -> int:
        return (16 * GB - LLAMA.weights_bytes()) // (4096 * LLAMA.kv_bytes_per_token(dtype))

    found = {
        "its own example": int(four_requests("max").series.column("running").max()),
        "16 GB less the weights": beside_weights("fp16"),
        "16 GB less the weights, int8 cache": beside_weights("int8"),
    }
    why = (
        "Reservations of 4,096 tokens of Llama 7B. It depends on what memory is left, and on bytes per token."
    )
    return between(2, 2, found, "", why)


def reallocation() -> Finding:
    trace = saturated("sharegpt", "paged").trace.first(30)
    stored = sum(row.prompt + row.output - 1 for row in trace.requests)
    cases: dict[str, bool] = {}
    shown: list[str] = []
    for name, growth in (("ranges that double", "double"), ("ranges longer by a slot", "1")):
        config = Config(allocator="grow", growth=growth, placement="first-fit")
        report = simulate(trace, config, record=False).report()
        moved_bytes = 2 * report["moved_tokens"] * config.spec.kv_bytes_per_token(config.kv_dtype)
        seconds = moved_bytes / get_hardware(config.hardware).bandwidth_bytes_per_s
        cases[name] = report["moved_tokens"] > stored
        share = 100 * seconds / report["time_s"]
        shown.append(f"{name}: {report['moved_tokens']:,} tokens moved, {share:.2g} % of the time")
    why = (
        f"30 requests of ShareGPT lengths that store {stored:,} tokens, from ranges as long as their prompts "
        "(allocator grow). Doubling copies a token about once in its life. An A100 copies fast; what a move "
        "needs beside that time is room for both ranges."
    )
    return where(cases, "; ".join(shown), why)


def admits_by_longest() -> Finding:
    batch = {name: saturated("sharegpt", name).report()["batch"]["mean"] for name in ("max", "paged")}
    rows = [request(f"r{k}", 64, 64, max_tokens=1984) for k in range(40)]
    config = Config(timing="unit", pool_tokens=15_728)
    most = max(simulate(Trace("promised", tuple(rows)), config).series.column("running").tolist())
    allowed = 15_728 // 2048
    why = (
        f"Asking for room up to the maximum length before admitting lets {allowed} run, as reservation does "
        f"(mean batch {batch['max']:.1f} against {batch['paged']:.1f}); vLLM asks for the prompt only."
    )
    return where(
        {"it keeps the gain of paging": allowed >= most}, f"{allowed} of {most} requests admitted", why
    )


WASTE = (
    Claim(
        "waste-88",
        GUIDE,
        "four reservations of 4,096 slots for 256, 512, 128 and 1,024 tokens",
        "88 % wasted",
        waste_88,
    ),
    Claim("reserved-16384", GUIDE, "slots that these four reserve", "16,384", reserved_total),
    Claim("used-1920", GUIDE, "slots that they use", "1,920", used_total),
    Claim(
        "request-5-waits",
        GUIDE,
        "after the first of them leaves, a request for 2,048 slots must wait",
        "must wait",
        request_5,
    ),
    Claim(
        "waste-60-80", TOPIC, "contiguous reservation wastes most of the memory", "60 to 80 %", old_systems
    ),
    Claim("waste-5-10", GUIDE, "paging wastes little", "5 to 10 %", paged_waste),
    Claim("near-100", TOPIC, "paging brings the use of memory near 100 %", "near 100 %", utilization),
    Claim(
        "no-fragmentation",
        TOPIC,
        "paging does away with internal and external fragmentation",
        "none",
        no_fragmentation,
    ),
    Claim("pool-40", GUIDE, "a pool of size classes wastes less than reservation", "40 %", memory_pool),
    Claim("half-memory", GUIDE, "memory that paging saves", "50 %", half_the_memory),
    Claim("batch-of-2", GUIDE, "wasted memory limits the batch", "2 requests", limits_to_two),
    Claim(
        "reallocation",
        TOPIC,
        "reserving too little leads to reallocations that are expensive",
        "more copied than stored",
        reallocation,
    ),
    Claim(
        "admit-by-max-len",
        GUIDE,
        "the scheduler sketch admits by the maximum length, and pages on demand",
        "no pre-allocation",
        admits_by_longest,
    ),
)
