"""The report as tables for a terminal."""

from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from sim.ledger import CLASSES


def runs_table(document: dict[str, Any]) -> Table:
    """One row a run, and one a replica: what memory held on average. Latencies are in JSON and HTML."""
    trace, runs = document["trace"], document["runs"]
    classes = [name for name in CLASSES if name != "cached" or any(run["ledger"]["cached"] for run in runs)]
    came = f"{trace['requests']} requests"
    if any(run["stopped_early"] for run in runs):
        came = f"stopped early, when {max(run['requests']['arrived'] for run in runs)} requests had come"
    table = _table(f"{trace['name']}: {came}; memory in % of the pool, mean over busy time")
    table.caption = "waste = 1 - live / (pool - free), in %"
    for heading in ("allocator", "source"):
        table.add_column(heading, no_wrap=True)
    for heading in ("finished", *classes, "waste", "batch", "preempted"):
        table.add_column(heading, justify="right", no_wrap=True)
    for run in runs:
        table.add_row(*_cells(run, run["allocator"], classes))
        for replica in run.get("replicas", []):
            table.add_row(*_cells(replica, f"  replica {replica['replica']}", classes))
    return table


def _cells(run: dict[str, Any], name: str, classes: list[str]) -> list[str]:
    ledger, requests = run["ledger"], run["requests"]
    return [
        name,
        run["source"],
        f"{requests['finished']}/{requests['arrived']}",
        *(f"{100 * ledger[name] / (ledger['pool'] or 1):.1f}" for name in classes),
        f"{run['waste_percent']:.1f}",
        f"{run['batch']['mean']:.1f}",
        str(run["preemptions"]),
    ]


def _table(title: str) -> Table:
    return Table(
        title=title,
        title_justify="left",
        title_style="bold",
        caption_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )


def agreement_table(agreement: list[dict[str, Any]]) -> Table:
    """Simulated against measured, one row an allocator."""
    table = _table("simulated against measured, at every step")
    for heading in ("allocator", "steps", "block tables", "largest ledger difference", "first difference"):
        table.add_column(heading)
    for row in agreement:
        first = row["first_difference"]
        table.add_row(
            row["allocator"],
            str(row["steps_compared"]),
            "identical" if row["block_tables_identical"] else "differ",
            f"{row['ledger_max_abs_diff_slots']} slots",
            "none" if first is None else f"step {first['step']}: {first['what']}",
        )
    return table


def peers_table(document: dict[str, Any]) -> Table:
    """Ours, simulated and measured, and what another system did with the same trace, weights and slots."""
    table = _table("the same trace, weights and slots; memory in % of the pool, mean over busy time")
    table.caption = "steps and seconds of a simulation are modelled, all others measured"
    table.add_column("system", no_wrap=True)
    classes = ("live", "reserved", "internal", "free")
    for heading in ("source", "block", "steps", *classes, "waste", "batch", "tokens/s", "same tokens"):
        table.add_column(heading, justify="right", no_wrap=True)
    ours = [run for run in document["runs"] if run["allocator"] == "paged"]
    for entry in [*ours, *document["peers"]]:
        is_peer = "system" in entry
        table.add_row(
            f"vLLM {entry['version']}" if is_peer else "PageLab",
            entry["source"],
            str(entry["block_size"] if is_peer else entry["config"]["block_size"]),
            str(entry["steps"]),
            *(f"{100 * entry['ledger'][name] / (entry['ledger']['pool'] or 1):.1f}" for name in classes),
            f"{entry['waste_percent']:.1f}",
            f"{entry['batch']['mean']:.1f}",
            f"{_rate(entry):.1f}",
            f"{entry['requests_with_equal_tokens']}/{entry['requests']}" if is_peer else "",
        )
    return table


def _rate(entry: dict[str, Any]) -> float:
    """Output tokens per second of steps as they were measured, where they were."""
    seconds = entry.get("meta", {}).get("measured_s")
    if not seconds:
        return entry["throughput"]["tokens_per_s"]
    return sum(one["emitted"] for one in entry["per_request"]) / seconds


def forecast_table(forecast: dict[str, Any]) -> Table:
    """A calibrated simulation against a run in which the clock was in charge."""
    steps = forecast["steps"]
    error = steps["error"]
    table = _table(f"{forecast['allocator']}: foretold by the timing file, against the clock")
    table.caption = (
        f"{error['num_steps']} steps of one schedule: off by {error['median_percent']:.1f} % (median), "
        f"{error['p95_percent']:.1f} % (P95), {error['total_percent']:+.1f} % in sum\n"
        "error = (1 + of the steps) x (1 + of the queue) - 1, in % of the measured figure"
    )
    table.add_column("figure")
    for heading in ("simulated", "measured", "error", "of the steps", "of the queue"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, figure in forecast["figures"].items():
        unit = " tokens/s" if name == "throughput" else " s"
        table.add_row(
            name,
            *(_number(figure[source], unit) for source in ("simulated", "measured")),
            *(_percent(figure[f"{part}_percent"]) for part in ("error", "steps", "queue")),
        )
    return table


def _number(value: float | None, unit: str) -> str:
    return "none" if value is None else f"{value:.4g}{unit}"


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:+.1f} %"
