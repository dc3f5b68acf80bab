"""Length-only CSV (vidur, Sarathi-Serve, Helix): two token counts a row; arrivals are generated."""

from sim.trace.fields import FieldError, text_count
from sim.trace.generate import poisson_times
from sim.trace.reading import Reading, ReadOptions
from sim.trace.source import Source
from sim.trace.table import Column, read_table

PROMPT: Column = ("num_prefill_tokens", "prompt_tokens")
OUTPUT: Column = ("num_decode_tokens", "output_tokens")
DEFAULT_RATE = 1.0  # requests/s


def read_length_only(source: Source, options: ReadOptions) -> Reading:
    """Requests in file order at Poisson arrivals of `rate` and `seed`, which is noted."""
    reading = Reading()
    pairs: list[tuple[int, int]] = []
    for line, (prompt, output) in read_table(source, (PROMPT, OUTPUT), reading):
        try:
            pairs.append((text_count(PROMPT[0], prompt), text_count(OUTPUT[0], output)))
        except FieldError as error:
            raise source.error(error.problem, line=line, field=error.field) from None
    times = generated_times(len(pairs), options, reading)
    for time, (prompt, output) in zip(times, pairs, strict=True):
        reading.add(time, prompt, output)
    return reading


def generated_times(num_requests: int, options: ReadOptions, reading: Reading) -> list[float]:
    """Arrivals for a file that has none, with a note that says so."""
    if not num_requests:
        return []
    rate = DEFAULT_RATE if options.rate is None else options.rate
    times = poisson_times(num_requests, rate, options.seed)
    reading.notes.append(f"the file has no arrivals: Poisson, {rate:g} requests/s, seed {options.seed}")
    return times
