"""The JSON report: one document, whoever made the runs (DESIGN section 8)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sim.ledger import waste_percent
from sim.request import SequenceGroup
from sim.trace import Trace
from sim.version import VERSION
from sim.work import Work

if TYPE_CHECKING:
    from sim.fleet import FleetRun
    from sim.run import Run


def report(runs: Sequence[Run | FleetRun]) -> dict[str, Any]:
    """The whole report of runs over one trace."""
    return {
        "pagelab": VERSION,
        "trace": describe_trace(runs[0].trace),
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


def report_run(run: Run) -> dict[str, Any]:
    """One entry of `runs`. Ledger means are weighted by step duration, over busy time."""
    ledger = run.ledger
    per_request = [describe_request(group) for group in run.groups]
    finished = [group for group in run.groups if group.finish_s is not None]
    num_rejected = sum(group.reject_reason is not None for group in run.groups)
    num_emitted = sum(group.emitted for group in run.groups)
    batch = run.series.column("batch")
    return {
        "source": run.source,
        "clock": run.clock,
        "allocator": run.config.allocator,
        "config": run.config.as_json(),
        "meta": run.meta,
        "requests": {
            "arrived": len(run.groups),
            "finished": len(finished),
            "rejected": num_rejected,
            "unfinished": len(run.groups) - len(finished) - num_rejected,
        },
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
        "prefix": {
            "prompt_tokens": sum(group.request.prompt for group in run.groups if group.prefills),
            "hit_tokens": sum(group.hit_tokens for group in run.groups),
        },
        "recompute": recompute(run.work),
        "speculation": speculation(run.work),
        "sharing": sharing(run),
        "batch": {"mean": run.series.mean("batch"), "max": int(batch.max()) if len(batch) else 0},
        "ledger": ledger,
        "waste_percent": waste_percent(ledger["pool"], ledger["live"], ledger["free"]),
        "occupancy": occupancy(ledger),
        "peak_blocks": -(-run.peak_slots // (run.config.slots_per_block or run.config.block_size)),
        "free_at_end": run.free_at_end,
        "table_bytes": run.table_bytes,
        "table_percent": 100.0 * run.table_bytes / run.config.pool_bytes,
        "latency": latency(finished),
        "throughput": {
            "requests_per_s": len(finished) / run.time_s if run.time_s else 0.0,
            "tokens_per_s": num_emitted / run.time_s if run.time_s else 0.0,
        },
        "per_request": per_request,
    }


def occupancy(ledger: dict[str, float]) -> dict[str, float]:
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


def sharing(run: Run) -> dict[str, float]:
    """The paper's memory saving (section 6.3): blocks saved by sharing / blocks without sharing, in percent.

    Without sharing every entry of every block table would be a block of its own. Both counts are means over
    busy time, weighted by step duration; the saving is the quotient of the means. Blocks shared through
    the prefix cache count as well.
    """
    without, blocks = run.series.mean("table_entries"), run.series.mean("blocks")
    return {
        "blocks_without_sharing": without,
        "saved_blocks": without - blocks,
        "saved_percent": 100.0 * (without - blocks) / without if without else 0.0,
    }


def describe_request(group: SequenceGroup) -> dict[str, Any]:
    """One entry of `per_request`; times are absolute, on the run's clock, in seconds."""
    request = group.request
    if group.finish_s is not None:
        status = "finished"
    else:
        status = "rejected" if group.reject_reason is not None else "unfinished"
    return {
        "id": request.id,
        "status": status,
        "reason": group.reject_reason,
        "arrival": request.arrival_s,
        "first_token": group.first_token_s,
        "finish": group.finish_s,
        "prompt": request.prompt,
        "output": request.output,
        "emitted": group.emitted,
        "preemptions": group.preemptions,
        "prefills": group.prefills,
        "hit_tokens": group.hit_tokens,
    }


def latency(finished: Iterable[SequenceGroup]) -> dict[str, dict[str, float | None]]:
    """Latencies of finished requests in seconds (paper section 6.1 for `normalized`: per output token)."""
    ttft: list[float] = []
    tpot: list[float] = []
    e2e: list[float] = []
    normalized: list[float] = []
    for group in finished:
        assert group.finish_s is not None and group.first_token_s is not None
        arrival, output = group.request.arrival_s, group.sequences[0].emitted
        ttft.append(group.first_token_s - arrival)
        e2e.append(group.finish_s - arrival)
        normalized.append(e2e[-1] / output)
        if output > 1:
            tpot.append((group.finish_s - group.first_token_s) / (output - 1))
    return {
        "ttft": summarize(ttft),
        "tpot": summarize(tpot),
        "e2e": summarize(e2e),
        "normalized": summarize(normalized),
    }


def summarize(values: list[float]) -> dict[str, float | None]:
    """Mean and percentiles (linear interpolation), or nulls where there is nothing to summarise."""
    if not values:
        return {"mean": None, "p50": None, "p95": None, "p99": None}
    p50, p95, p99 = np.percentile(values, [50, 95, 99]).tolist()
    return {"mean": float(np.mean(values)), "p50": p50, "p95": p95, "p99": p99}
