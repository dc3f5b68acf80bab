"""BurstGPT (CSV, CC-BY-4.0): Timestamp, Model, Request tokens, Response tokens, ..., by column name.

Timestamps are seconds, mostly whole, so several requests may share one. A response of 0 tokens is a
request that failed.
"""

from sim.request import Request
from sim.trace.fields import FieldError, name, text_count, text_seconds
from sim.trace.reading import Reading, ReadOptions
from sim.trace.source import Source
from sim.trace.table import Column, read_table

COLUMNS: tuple[Column, ...] = (("Timestamp",), ("Request tokens",), ("Response tokens",))
SESSION: Column = ("Session ID",)

FAILED = "failed request (Response tokens 0)"
NO_PROMPT = "no prompt (Request tokens 0)"


def read_burstgpt(source: Source, options: ReadOptions) -> Reading:
    """Failed requests, and those without a prompt, are skipped and counted; the first one kept is at 0."""
    reading = Reading()
    rows: list[tuple[float, int, int, str | None]] = []
    for line, (stamp, prompt, output, session) in read_table(source, COLUMNS, reading, optional=(SESSION,)):
        try:
            row = (
                text_seconds("Timestamp", stamp),
                text_count("Request tokens", prompt, least=0),
                text_count("Response tokens", output, least=0),
                name("Session ID", session.strip()) if session.strip() else None,
            )
        except FieldError as error:
            raise source.error(error.problem, line=line, field=error.field) from None
        if not row[2]:
            reading.skipped[FAILED] += 1
        elif not row[1]:
            reading.skipped[NO_PROMPT] += 1
        else:
            rows.append(row)
    start = min((row[0] for row in rows), default=0.0)
    for place, (stamp_s, num_prompt, num_output, session_id) in enumerate(rows):
        reading.requests.append(
            Request(
                id=f"r{place}",
                arrival_s=stamp_s - start,
                prompt=num_prompt,
                output=num_output,
                max_tokens=num_output,
                session=session_id,
            )
        )
    return reading
