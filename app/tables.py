"""The report as tables for a terminal."""

from typing import Any

from rich.table import Table
from sim.ledger import CLASSES


def runs_table(document: dict[str, Any]) -> Table:
    """One row a run, and one a replica: what memory held on average, and what requests felt."""
    trace = document["trace"]
    table = Table(
        title=f"{trace['name']}: {trace['requests']} requests. Memory in % of the pool, mean over busy time",
        title_justify="left",
        caption="waste = 1 - live / (pool - free); times are "
        + ", ".join(sorted({f"{run['source']} runs: {run['clock']}" for run in document["runs"]})),
        caption_justify="left",
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    table.add_column("allocator", no_wrap=True)
    table.add_column("source", no_wrap=True)
    for heading in ("done", *CLASSES, "waste", "batch", "preempt", "TTFT p50", "tokens/s"):
        table.add_column(heading, justify="right", no_wrap=True)
    for run in document["runs"]:
        table.add_row(*_cells(run, run["allocator"]))
        for replica in run.get("replicas", []):
            table.add_row(*_cells(replica, f"  replica {replica['replica']}"))
    return table


def _cells(run: dict[str, Any], name: str) -> list[str]:
    ledger, requests = run["ledger"], run["requests"]
    ttft = run["latency"]["ttft"]["p50"]
    return [
        name,
        run["source"],
        f"{requests['finished']}/{requests['arrived']}",
        *(f"{100 * ledger[name] / (ledger['pool'] or 1):.1f}" for name in CLASSES),
        f"{run['waste_percent']:.1f} %",
        f"{run['batch']['mean']:.1f}",
        str(run["preemptions"]),
        "-" if ttft is None else f"{ttft:.3g} s",
        f"{run['throughput']['tokens_per_s']:.4g}",
    ]


def agreement_table(agreement: list[dict[str, Any]]) -> Table:
    """Simulated against measured, one row an allocator."""
    table = Table(title="simulated against measured", title_justify="left")
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
