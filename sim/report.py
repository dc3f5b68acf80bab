"""The JSON report: one document, whoever made the runs (DESIGN section 8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sim.ledger import waste_percent
from sim.outcomes import Outcomes, or_none
from sim.request import Request
from sim.trace import Trace
from sim.version import VERSION
from sim.work import Work

if TYPE_CHECKING:
    from sim.fleet import FleetRun
    from sim.run import Run
    from sim.totals import StreamedRun

LATENCIES = ("ttft", "tpot", "e2e", "normalized")


def report(runs: Sequence[Run | FleetRun | StreamedRun]) -> dict[str, Any]:
    """The whole report of runs over one trace."""
    trace = runs[0].trace
    return {
        "pagelab": VERSION,
        "trace": describe_trace(trace) if isinstance(trace, Trace) else trace.as_json(),
        "runs": [run.report() for run in runs],
    }


def describe_trace(trace: Trace) -> dict[str, Any]:
    """The report's `trace` entry: counts and seconds."""
    return {
        "name": trace.name,
        "requests": trace.num_requests,
        "span_s": trace.span_s,
        "prompt_tokens": trace.prompt_tokens,
        "output_tokens": trace.output_tokens,
        "skipped": dict(trace.skipped),
    }


def report_run(run: Run, *, with_requests: bool = True) -> dict[str, Any]:
    """One entry of `runs`. Without its requests it has no `per_request`, and is of one size for any trace."""
    return {**summary(run), **({"per_request": per_request(run.outcomes)} if with_requests else {})}


def summary(run: Run | StreamedRun) -> dict[str, Any]:
    """All but `per_request`. Ledger means are weighted by step duration, over busy time."""
    ledger, counts = run.ledger, run.counts
    return {
        "source": run.source,
        "clock": run.clock,
        "allocator": run.config.allocator,
        "config": run.config.as_json(),
        "meta": run.meta,
        "stopped_early": run.is_stopped,
        "requests": counts,
        "steps": run.num_steps,
        "time_s": run.time_s,
        "idle_s": run.idle_s,
        "preemptions": run.num_preemptions,
        "lost_tokens": run.work.lost,
        "copies": run.traffic.copies,
        "swapped_out_blocks": run.traffic.swapped_out_blocks,
        "swapped_in_blocks": run.traffic.swapped_in_blocks,
        "copied_tokens": run.traffic.copied_tokens,
        "moved_tokens": run.traffic.moved_tokens,
        "prefix": run.prefix,
        "recompute": recompute(run.work),
        "speculation": speculation(run.work),
        "sharing": sharing(run.mean("table_entries"), run.mean("blocks")),
        "batch": {"mean": run.mean("batch"), "max": run.max_batch},
        "ledger": ledger,
        "waste_percent": waste_percent(ledger["pool"], ledger["live"], ledger["free"]),
        "occupancy": occupancy(ledger),
        "peak_blocks": -(-run.peak_slots // (run.config.slots_per_block or run.config.block_size)),
        "free_at_end": run.free_at_end,
        "table_bytes": run.table_bytes,
        "table_percent": 100.0 * run.table_bytes / run.config.pool_bytes,
        "latency": run.latency,
        "throughput": {
            "requests_per_s": counts["finished"] / run.time_s if run.time_s else 0.0,
            "tokens_per_s": run.num_emitted / run.time_s if run.time_s else 0.0,
        },
    }


def count_requests(outcomes: Outcomes, stopped_s: float | None = None) -> dict[str, int]:
    """How many requests came, until the run was stopped if it was, and what became of them."""
    finished, rejected = int(outcomes.is_finished.sum()), len(outcomes.reject_reasons)
    arrived = len(outcomes)
    if stopped_s is not None:
        arrived = sum(request.arrival_s <= stopped_s for request in outcomes.requests)
    return {
        "arrived": arrived,
        "finished": finished,
        "rejected": rejected,
        "unfinished": arrived - finished - rejected,
    }


def prefix(outcomes: Outcomes) -> dict[str, int]:
    """Prompt tokens of requests that were admitted, and those of them found in the prefix cache."""
    both = zip(outcomes.requests, outcomes.prefills, strict=True)
    admitted = (request.prompt for request, prefills in both if prefills)
    return {"prompt_tokens": sum(admitted), "hit_tokens": sum(outcomes.hit_tokens)}


def occupancy(ledger: Mapping[str, float]) -> dict[str, float]:
    """Two shares of the pool: slots somebody holds (what a block gauge shows), and slots with live KV."""
    pool = ledger["pool"]
    held = pool - ledger["free"] - ledger["external"] - ledger["cached"]
    return {
        "block_percent": 100.0 * held / pool if pool else 0.0,
        "slot_percent": 100.0 * ledger["live"] / pool if pool else 0.0,
    }


def recompute(work: Work) -> dict[str, float]:
    """What preemption cost in tokens: `thrash_rate` is tokens computed again / all tokens computed."""
    return {
        "computed_tokens": work.computed,
        "lost_tokens": work.lost,
        "tokens_computed_again": work.again,
        "thrash_rate": work.thrash_rate,
    }


def speculation(work: Work) -> dict[str, float | None]:
    """What drafts brought: tokens that one sequence emits in one decode step, 1 without drafts."""
    return {
        "drafted_tokens": work.drafted,
        "accepted_tokens": work.accepted,
        "acceptance": work.draft_acceptance,
        "tokens_per_decode": work.tokens_per_decode,
    }


def sharing(table_entries: float, blocks: float) -> dict[str, float]:
    """The paper's memory saving (section 6.3): blocks saved by sharing / blocks without sharing, in percent.

    Without sharing every entry of every block table would be a block of its own. Both counts are means over
    busy time, weighted by step duration; the saving is the quotient of the means. Blocks shared through
    the prefix cache count as well.
    """
    return {
        "blocks_without_sharing": table_entries,
        "saved_blocks": table_entries - blocks,
        "saved_percent": 100.0 * (table_entries - blocks) / table_entries if table_entries else 0.0,
    }


def per_request(outcomes: Outcomes) -> list[dict[str, Any]]:
    """One dict for each request; times are absolute, on the run's clock, in seconds."""
    columns = zip(
        outcomes.requests,
        or_none(outcomes.first_token_s),
        or_none(outcomes.finish_s),
        outcomes.emitted,
        outcomes.preemptions,
        outcomes.prefills,
        outcomes.hit_tokens,
        strict=True,
    )
    entries: list[dict[str, Any]] = [
        {
            "id": request.id,
            "status": "unfinished" if finish is None else "finished",
            "reason": None,
            "arrival": request.arrival_s,
            "first_token": first_token,
            "finish": finish,
            "prompt": request.prompt,
            "output": request.output,
            "emitted": emitted,
            "preemptions": preemptions,
            "prefills": prefills,
            "hit_tokens": hit_tokens,
        }
        for request, first_token, finish, emitted, preemptions, prefills, hit_tokens in columns
    ]
    for place, reason in outcomes.reject_reasons.items():
        entries[place].update(status="rejected", reason=reason)
    return entries


def latency(outcomes: Outcomes) -> dict[str, dict[str, float | None]]:
    """Mean and percentiles of `latencies`, over finished requests."""
    done = outcomes.is_finished
    finished = [outcomes.requests[place] for place in np.flatnonzero(done).tolist()]
    values = latencies(finished, outcomes.first_token_s[done], outcomes.finish_s[done])
    return {name: summarize(one) for name, one in values.items()}


def latencies(
    finished: Sequence[Request], first_token_s: NDArray[np.float64], finish_s: NDArray[np.float64]
) -> dict[str, NDArray[np.float64]]:
    """Of finished requests, in seconds (paper section 6.1 for `normalized`: per output token)."""
    arrival = np.array([request.arrival_s for request in finished], dtype=np.float64)
    output = np.array([request.output for request in finished], dtype=np.int64)
    has_more = output > 1
    return {
        "ttft": first_token_s - arrival,
        "tpot": (finish_s - first_token_s)[has_more] / (output[has_more] - 1),
        "e2e": finish_s - arrival,
        "normalized": (finish_s - arrival) / output,
    }


def summarize(values: Sequence[float] | NDArray[np.float64]) -> dict[str, float | None]:
    """Mean and percentiles (linear interpolation), or nulls where there is nothing to summarise."""
    if not len(values):
        return {"mean": None, "p50": None, "p95": None, "p99": None}
    p50, p95, p99 = np.percentile(values, [50, 95, 99]).tolist()
    return {"mean": float(np.mean(values)), "p50": p50, "p95": p95, "p99": p99}
