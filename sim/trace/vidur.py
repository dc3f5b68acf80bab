"""Vidur CSV: arrived_at (s), num_prefill_tokens, num_decode_tokens."""

from sim.trace.fields import FieldError, text_count, text_seconds
from sim.trace.length_only import OUTPUT, PROMPT
from sim.trace.reading import Reading, ReadOptions
from sim.trace.source import Source
from sim.trace.table import Column, read_table

ARRIVAL: Column = ("arrived_at", "arrival_s", "arrival")
COLUMNS: tuple[Column, ...] = (ARRIVAL, PROMPT, OUTPUT)


def read_vidur(source: Source, options: ReadOptions) -> Reading:
    """Arrivals are seconds after the earliest request."""
    reading = Reading()
    rows: list[tuple[float, int, int]] = []
    for line, (arrival, prompt, output) in read_table(source, COLUMNS, reading):
        try:
            arrival_s = text_seconds(ARRIVAL[0], arrival)
            rows.append((arrival_s, text_count(PROMPT[0], prompt), text_count(OUTPUT[0], output)))
        except FieldError as error:
            raise source.error(error.problem, line=line, field=error.field) from None
    start_s = min((arrival for arrival, _, _ in rows), default=0.0)
    for arrival_s, num_prompt, num_output in rows:
        reading.add(round(arrival_s - start_s, 6), num_prompt, num_output)
    return reading
