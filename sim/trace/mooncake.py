"""Mooncake traces (JSON Lines, FAST'25 release): timestamp (ms), input_length, output_length, hash_ids.

`hash_ids` name blocks of 512 prompt tokens; each id stands for the whole prefix up to its end, and the last
block may be partial. In the conversation trace arrivals come in lumps of about ten every 3 s.
"""

from collections import Counter
from dataclasses import replace
from typing import Any

from sim.errors import InputError, printable
from sim.request import Request
from sim.trace.check import check_request
from sim.trace.fields import FieldError, count, ids, name, shown
from sim.trace.json_lines import read_objects, required
from sim.trace.reading import Reading, ReadOptions
from sim.trace.source import Source

KEYS = ("timestamp", "input_length", "output_length", "hash_ids")
SESSION = "session_id"  # an addition of other tools' dialects
BLOCK_TOKENS = 512


def read_mooncake(source: Source, options: ReadOptions) -> Reading:
    """Arrivals are seconds after the earliest request; `spread_s` spreads those of one instant.

    Where `hash_ids` are missing nothing is known to be shared. Keys that are not used are noted.
    """
    reading = Reading()
    stamps_ms: list[int] = []
    unused: set[str] = set()
    for line, row in read_objects(source):
        try:
            stamps_ms.append(_milliseconds(required(row, "timestamp")))
            request = _request(row, f"r{len(reading.requests)}")
        except FieldError as error:
            raise source.error(error.problem, line=line, field=error.field) from None
        reading.requests.append(request)
        unused.update(row.keys() - {*KEYS, SESSION})
    if unused:
        reading.notes.append(printable(f"keys not used: {', '.join(sorted(unused))}"))
    start_ms = min(stamps_ms)
    times = [(stamp - start_ms) / 1000 for stamp in stamps_ms]
    if options.spread_s is not None:
        times = spread(times, options.spread_s)
        reading.notes.append(f"requests of one instant were spread evenly over {options.spread_s:g} s")
    elif len(set(times)) < len(times) / 2:
        lumps = f"{len(times)} requests arrive at {len(set(times))} instants"
        reading.notes.append(f"{lumps}, as in the file; spread_s spreads them")
    reading.requests = [
        replace(request, arrival_s=time) for request, time in zip(reading.requests, times, strict=True)
    ]
    return reading


def _milliseconds(value: object) -> int:
    if type(value) is not int or not 0 <= value < 2**53:
        raise FieldError("timestamp", f"{shown(value)} must be whole milliseconds; multiply seconds by 1000")
    return value


def _request(row: dict[str, Any], request_id: str) -> Request:
    output = count("output_length", required(row, "output_length"))
    request = Request(
        id=request_id,
        arrival_s=0.0,
        prompt=count("input_length", required(row, "input_length")),
        output=output,
        max_tokens=output,
        blocks=ids("hash_ids", row["hash_ids"]) if "hash_ids" in row else None,
        block_tokens=BLOCK_TOKENS if "hash_ids" in row else None,
        session=name(SESSION, row[SESSION]) if SESSION in row else None,
    )
    check_blocks(request)
    return request


def check_blocks(request: Request) -> None:
    """`check_request` for a format whose `blocks` are called hash_ids."""
    try:
        check_request(request)
    except FieldError as error:
        raise FieldError("hash_ids", error.problem) from None


def spread(times: list[float], spread_s: float) -> list[float]:
    """The k-th (from 0) of m requests of one instant moves by `spread_s * k / m`."""
    if not 0 < spread_s < float("inf"):
        raise InputError(f"spread_s {spread_s}: must be above 0 and finite (3 suits the conversation trace)")
    sizes, seen = Counter(times), Counter[float]()
    moved: list[float] = []
    for time in times:
        moved.append(round(time + spread_s * seen[time] / sizes[time], 6))
        seen[time] += 1
    return moved
