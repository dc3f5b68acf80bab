"""A sweep small enough for a page: one dial, some policies, a few hundred requests, all simulated at once.

`pagelab sweep` is for what takes longer.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any

from app.paper.published import FIGURE_2, FIGURE_12, FIGURE_13, FIGURE_18B
from app.paper.servers import SEED, TARGET_S, loaded, waiting_at_start, while_waiting
from sim import Config, InputError, Run, Trace, simulate
from sim.alloc import ALLOCATORS, BLOCKED
from sim.config import PAPER_POOL_TOKENS

PAPER_RATE = {"sharegpt": 2.0, "alpaca": 30.0}  # of Figure 13
PAPER_POLICIES = ("max", "pow2", "oracle", "paged")
DIALS = {
    "block_size": "block size, tokens",
    "pool_tokens": "pool, slots",
    "rate": "arrivals, requests/s",
    "allocator": "policy",
}
MEASURES = {
    "live_percent": "live slots, % of the pool",
    "waste_percent": "waste, % of the memory in use",
    "batch": "sequences at once, mean",
    "latency": "latency, s a token",
    "preemptions": "preemptions",
}
MOST_RUNS, MOST_REQUESTS = 60, 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class Sweep:
    """What to vary. Of the dials, the one called `dial` takes each of `values` instead.

    With `rate` None all requests are there from the start, and means are taken while requests wait, as for
    the paper's Figures 2 and 13. Raises InputError for what is too much or makes no sense.
    """

    lengths: str = "sharegpt"
    dial: str = "allocator"
    values: tuple[float, ...] = ()
    policies: tuple[str, ...] = PAPER_POLICIES
    num_requests: int = 400
    rate: float | None = None
    pool_tokens: int = PAPER_POOL_TOKENS
    block_size: int = 16

    def __post_init__(self) -> None:
        if not self.policies:
            raise InputError("policies: none is chosen; choose one or more")
        if self.dial == "block_size" and (odd := [name for name in self.policies if name not in BLOCKED]):
            raise InputError(f"policies {', '.join(odd)}: have no blocks; choose {' or '.join(BLOCKED)}")
        if self.dial != "allocator" and not self.values:
            raise InputError("values: there is none; write some, such as 8, 16, 32")
        if not 1 <= self.num_requests <= MOST_REQUESTS:
            raise InputError(f"requests {self.num_requests}: must be from 1 to {MOST_REQUESTS}")
        if (count := len(self.policies) * max(1, len(self.values))) > MOST_RUNS:
            raise InputError(
                f"values: {len(self.values)} for {len(self.policies)} policies are {count} runs, and this "
                f"page makes {MOST_RUNS} at most; `pagelab sweep` has no such limit"
            )

    def at(self, value: float) -> "Sweep":
        """The same with the dial set."""
        kind = float if self.dial == "rate" else int
        return replace(self, dial="allocator", values=(), **{self.dial: kind(value)})


def parse_values(text: str, dial: str) -> tuple[float, ...]:
    """Numbers between commas or spaces, ascending. InputError names the one that is none."""
    found: set[float] = set()
    for word in text.replace(",", " ").split():
        try:
            value = float(word)
        except ValueError:
            raise InputError(f"values, {word[:20]!r}: must be a number, such as 8, 16, 32") from None
        if not (math.isfinite(value) and value > 0):
            raise InputError(f"values, {word[:20]!r}: must be above 0 and finite")
        if dial != "rate" and value != int(value):
            raise InputError(f"values, {word[:20]!r}: must be a whole number of {DIALS[dial]}")
        found.add(value)
    return tuple(sorted(found))


def rows(sweep: Sweep) -> list[dict[str, Any]]:
    """One row a run: `policy`, `x` (the dial's value, or the policy), and every measure."""
    if sweep.dial == "allocator":
        return [{"policy": policy, "x": policy, **numbers(sweep, policy)} for policy in sweep.policies]
    return [
        {"policy": policy, "x": value, **numbers(sweep.at(value), policy)}
        for policy in sweep.policies
        for value in sweep.values
    ]


def numbers(sweep: Sweep, policy: str) -> dict[str, float | None]:
    """What one run says. InputError, with the policy's name, when it cannot be simulated."""
    pool = sweep.pool_tokens // sweep.block_size * sweep.block_size
    try:
        config = Config(allocator=policy, pool_tokens=pool, block_size=sweep.block_size, seed=SEED)
        run = simulate(trace_of(sweep.lengths, sweep.rate, sweep.num_requests), config, record=False)
    except InputError as error:
        raise InputError(f"{policy}: {error}") from None
    return told(run, is_waiting=sweep.rate is None)


def told(run: Run, *, is_waiting: bool) -> dict[str, float | None]:
    """The measures of a run; None where it has nothing to say."""
    report = run.report()
    live, batch = report["occupancy"]["slot_percent"], report["batch"]["mean"]
    if is_waiting and (run.series.column("waiting") > 0).any():
        batch, shares = while_waiting(run)
        live = shares["live"]
    return {
        "live_percent": live,
        "waste_percent": report["waste_percent"],
        "batch": batch,
        "latency": report["latency"]["normalized"]["mean"],
        "preemptions": report["preemptions"],
    }


@cache
def trace_of(lengths: str, rate: float | None, num_requests: int) -> Trace:
    """Requests with the paper's lengths and filter, or a built-in trace."""
    if lengths not in PAPER_RATE:
        trace = Trace.read(lengths).first(num_requests)
        if rate is None:
            return trace
        own = trace.num_requests / trace.span_s if trace.span_s else 0.0
        return trace.scale_rate(rate / own) if own else trace
    if rate is not None:
        return loaded(lengths, rate, num_requests)
    return waiting_at_start(lengths, num_requests)


def published(sweep: Sweep, measure: str) -> list[dict[str, Any]]:
    """The paper's points for this dial and measure: `policy`, `x` and the measure."""
    found: Iterable[tuple[str, Any, float]] = ()
    match sweep.dial, measure:
        case "block_size", "latency":
            found = [("paged", x, value) for x, value in FIGURE_18B.get(sweep.lengths, {}).items()]
        case "rate", "latency":
            found = [(name, x, TARGET_S) for name, x in FIGURE_12.get(sweep.lengths, {}).items()]
        case "rate" | "pool_tokens" | "allocator" as dial, "batch":
            place = {"rate": PAPER_RATE.get(sweep.lengths), "pool_tokens": PAPER_POOL_TOKENS}.get(dial)
            batches = FIGURE_13.get(sweep.lengths, {}).items()
            found = [(name, place or name, value) for name, value in batches]
        case "allocator", "live_percent" if sweep.lengths == "sharegpt":
            found = [(name, name, shares[0]) for name, shares in FIGURE_2.items()]
        case _:
            pass
    return [{"policy": name, "x": x, measure: value} for name, x, value in found if name in sweep.policies]


def crossing(points: Sequence[dict[str, Any]], policy: str, target: float = TARGET_S) -> float | None:
    """The rate at which a policy's latency passes `target`, on a line in log-log; None if it does not."""
    mine = [(one["x"], one["latency"]) for one in points if one["policy"] == policy and one["latency"]]
    for (x, low), (other, high) in pairwise(mine):
        if low <= target < high:
            share = math.log(target / low) / math.log(high / low)
            return x * (other / x) ** share
    return None


def policy_names() -> list[str]:
    """All there are."""
    return list(ALLOCATORS)
