"""Azure LLM inference traces, 2023 and 2024 (CSV).

Columns TIMESTAMP, ContextTokens, GeneratedTokens. Stamps carry 7 digits of a second (the last is 0 in all
published rows) and may carry an offset such as +00:00; without one they are taken as UTC.
"""

from datetime import UTC, datetime

from sim.trace.fields import FieldError, shown, text_count
from sim.trace.reading import Reading, ReadOptions
from sim.trace.source import Source
from sim.trace.table import Column, read_table

COLUMNS: tuple[Column, ...] = (("TIMESTAMP",), ("ContextTokens",), ("GeneratedTokens",))


def read_azure(source: Source, options: ReadOptions) -> Reading:
    """Arrivals are seconds after the earliest request."""
    reading = Reading()
    rows: list[tuple[datetime, int, int]] = []
    for line, (stamp, prompt, output) in read_table(source, COLUMNS, reading):
        try:
            lengths = text_count("ContextTokens", prompt), text_count("GeneratedTokens", output)
            rows.append((_moment(stamp), *lengths))
        except FieldError as error:
            raise source.error(error.problem, line=line, field=error.field) from None
    start = min((moment for moment, _, _ in rows), default=None)
    for moment, prompt, output in rows:
        assert start is not None
        reading.add((moment - start).total_seconds(), prompt, output)
    return reading


def _moment(text: str) -> datetime:
    """UTC, without a time zone attached."""
    try:
        moment = datetime.fromisoformat(text.strip())
        return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
    except (ValueError, OverflowError):
        problem = f"{shown(text)} must be a date and time such as 2023-11-16 18:17:03.9799600"
        raise FieldError("TIMESTAMP", problem) from None
