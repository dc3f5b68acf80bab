"""The report of a fleet: sums over its replicas, with each of them beside."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sim.ledger import waste_percent
from sim.outcomes import Outcomes
from sim.report import latency, occupancy, recompute, sharing, speculation
from sim.work import Work

if TYPE_CHECKING:
    from sim.fleet.run import FleetRun
    from sim.run import Run

SUMMED = (
    "steps", "preemptions", "lost_tokens", "copies", "swapped_out_blocks", "swapped_in_blocks",
    "copied_tokens", "moved_tokens", "peak_blocks", "free_at_end", "table_bytes",
)  # fmt: skip


def report_fleet(fleet_run: FleetRun) -> dict[str, Any]:
    """One entry of `runs`.

    Slots and counts are sums over replicas. `ledger` and `sharing` add up means over each replica's own busy
    time, so that with loans the pool in it is not exactly that of the fleet; at every instant the pools are.
    `peak_blocks` and `table_bytes` are sums of peaks that need not fall together. `time_s` is when the last
    replica ended; `idle_s` adds up the seconds in which each had nothing to run until then.
    """
    runs = fleet_run.runs
    reports = [run.report() for run in runs]
    time_s = max(report["time_s"] for report in reports)
    busy_s = [report["time_s"] - report["idle_s"] for report in reports]
    ledger: dict[str, float] = _sums(reports, "ledger")
    work = Work.of_all(run.work for run in runs)
    table_bytes = sum(run.table_bytes for run in runs)
    finished = [group for run in runs for group in run.groups if group.finish_s is not None]
    num_emitted = sum(entry["emitted"] for report in reports for entry in report["per_request"])
    return {
        "source": fleet_run.source,
        "clock": fleet_run.clock,
        "allocator": fleet_run.config.allocator,
        "config": {**fleet_run.config.as_json(), **asdict(fleet_run.fleet)},
        "meta": {},
        "stopped_early": fleet_run.is_stopped,
        "requests": _sums(reports, "requests"),
        **{name: sum(report[name] for report in reports) for name in SUMMED},
        "time_s": time_s,
        "idle_s": len(runs) * time_s - sum(busy_s),
        "prefix": _sums(reports, "prefix"),
        "recompute": recompute(work),
        "speculation": speculation(work),
        "sharing": sharing(_summed_mean(runs, "table_entries"), _summed_mean(runs, "blocks")),
        "batch": {
            "mean": _mean([report["batch"]["mean"] for report in reports], busy_s),
            "max": max(report["batch"]["max"] for report in reports),
        },
        "ledger": ledger,
        "waste_percent": waste_percent(ledger["pool"], ledger["live"], ledger["free"]),
        "occupancy": occupancy(ledger),
        "table_percent": 100.0 * table_bytes / (len(runs) * fleet_run.config.pool_bytes),
        "loans": {"blocks": fleet_run.num_loans, "peak_blocks": fleet_run.peak_on_loan},
        "latency": latency(Outcomes.of([group for run in runs for group in run.groups])),
        "throughput": {
            "requests_per_s": len(finished) / time_s if time_s else 0.0,
            "tokens_per_s": num_emitted / time_s if time_s else 0.0,
        },
        "per_request": _per_request(fleet_run, reports),
        "replicas": [_without_requests(index, report) for index, report in enumerate(reports)],
    }


def _sums(reports: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return {key: sum(report[name][key] for report in reports) for key in reports[0][name]}


def _summed_mean(runs: list[Run], name: str) -> float:
    return sum(run.series.mean(name) for run in runs)


def _mean(values: list[float], weights: list[float]) -> float:
    total = sum(weights)
    return (
        sum(value * weight for value, weight in zip(values, weights, strict=True)) / total if total else 0.0
    )


def _per_request(fleet_run: FleetRun, reports: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All requests in order of arrival, each with the replica that served it."""
    entries = {
        entry["id"]: {**entry, "replica": index}
        for index, report in enumerate(reports)
        for entry in report["per_request"]
    }
    return [entries[request.id] for request in fleet_run.trace.requests if request.id in entries]


def _without_requests(index: int, report: dict[str, Any]) -> dict[str, Any]:
    shared = ("config", "meta", "per_request")  # said once, above
    return {"replica": index, **{key: value for key, value in report.items() if key not in shared}}
