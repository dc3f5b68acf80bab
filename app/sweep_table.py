"""The rows of a sweep as a table for a terminal."""

from collections import Counter
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

FIGURES = {  # heading: column, and how it is written
    "finished": ("finished", "{:,}"),
    "waste %": ("waste_percent", "{:.1f}"),
    "batch": ("mean_batch", "{:.1f}"),
    "preempted": ("preemptions", "{:,}"),
    "TTFT p95 s": ("ttft_p95_s", "{:.3g}"),
    "TPOT p95 s": ("tpot_p95_s", "{:.3g}"),
    "tokens/s": ("tokens_per_s", "{:,.0f}"),
}


def results_table(rows: list[dict[str, Any]], varying: tuple[str, ...]) -> Table:
    """One row a configuration: the dials that vary, and the usual figures or that there are none."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in (*(name.replace("_", " ") for name in varying), *FIGURES):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for row in rows:
        dials = ["" if row[name] is None else str(row[name]) for name in varying]
        figures = [_written(row[column], form) for column, form in FIGURES.values()]
        table.add_row(*dials, *figures, "" if row["status"] == "done" else row["status"])
    return table


def failures(rows: list[dict[str, Any]]) -> list[str]:
    """Why there are rows without figures: each reason once, with how many rows have it."""
    counts = Counter(f"{row['status']}: {row['why']}" for row in rows if row["status"] != "done")
    return [f"{why} ({count} rows)" if count > 1 else why for why, count in counts.items()]


def _written(value: float | None, form: str) -> str:
    return "" if value is None else form.format(value)
