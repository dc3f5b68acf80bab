# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
"""A finished run as rows in a file: a step, a request or an event each; Parquet where the name ends in it."""

import csv
from io import StringIO
from pathlib import Path

from app import recording
from app.files import write_file, write_text
from app.recording import is_parquet
from sim import Run


def write_steps(run: Run, path: Path) -> None:
    """One row a step, the columns of `sim.series.COLUMNS`."""
    if is_parquet(path):
        from app import parquet  # pyarrow takes a while to import

        write_file(path, lambda out: parquet.write_steps(run, out))
        return
    text = StringIO()
    run.series.write_csv(text)
    write_text(path, text.getvalue())


def write_requests(run: Run, path: Path) -> None:
    """One row a request, the keys of the report's `per_request`; in CSV `prefills` are parted by blanks."""
    if is_parquet(path):
        from app import parquet

        write_file(path, lambda out: parquet.write_requests(run.requests, out))
        return
    text = StringIO()
    rows = [{**row, "prefills": " ".join(map(str, row["prefills"]))} for row in run.requests]
    table = csv.DictWriter(text, rows[0].keys(), lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    write_text(path, text.getvalue())


def write_events(run: Run, path: Path) -> None:
    """One row an event, in order: JSON Lines, or Parquet."""
    if is_parquet(path):
        from app import parquet

        write_file(path, lambda out: parquet.pq.write_table(parquet.events_table(run.events), out))
        return
    write_file(path, lambda out: recording.write_events(run, out))
