"""PageLab's own format: JSON Lines, one request a line (DESIGN.md, "Trace format").

    {"id": "r0", "arrival": 0.0, "prompt": 512, "output": 64, "max_tokens": 128, "session": "chat-7"}

`id`, `arrival` (s), `prompt` and `output` are required, the rest optional; null is the same as absent. Any
other key is an error. Arrivals are kept as written: the first need not be 0.
"""

import json
from typing import Any, cast

from sim.errors import unknown_name
from sim.request import Request
from sim.trace.check import check_request
from sim.trace.fields import FieldError, count, ids, name, seconds, shown
from sim.trace.json_lines import read_objects, required
from sim.trace.reading import Reading, ReadOptions
from sim.trace.source import Source

REQUIRED_KEYS = ("id", "arrival", "prompt", "output")
OPTIONAL_KEYS = (
    "max_tokens", "n", "beam", "beam_parents", "tokens", "blocks", "block_tokens", "prefix", "prefix_tokens",
    "session", "priority",
)  # fmt: skip
KEYS = frozenset(REQUIRED_KEYS + OPTIONAL_KEYS)
_DEFAULTS = {"n": 1, "beam": 1, "prefix_tokens": 0, "priority": 0}  # every other optional one: None


def read_native(source: Source, options: ReadOptions) -> Reading:
    """Every line is a request; nothing is skipped."""
    reading = Reading()
    line_of: dict[str, int] = {}
    for line, row in read_objects(source):
        try:
            request = request_from_json(row)
            if request.id in line_of:
                problem = f"{request.id!r} stands on line {line_of[request.id]} too; ids must be unique"
                raise FieldError("id", problem)
        except FieldError as error:
            raise source.error(error.problem, line=line, field=error.field) from None
        line_of[request.id] = line
        reading.requests.append(request)
    return reading


def request_from_json(row: dict[str, Any]) -> Request:
    """A checked request. Raises `FieldError`."""
    for key in row:
        if key not in KEYS:
            raise FieldError(shown(key), str(unknown_name("key", key[:40], REQUIRED_KEYS + OPTIONAL_KEYS)))
    given = {key: value for key, value in row.items() if value is not None}
    output = count("output", required(given, "output"))
    request = Request(
        id=name("id", required(given, "id")),
        arrival_s=seconds("arrival", required(given, "arrival")),
        prompt=count("prompt", required(given, "prompt")),
        output=output,
        max_tokens=count("max_tokens", given.get("max_tokens", output)),
        **_optional_fields(given),
    )
    check_request(request)
    return request


def _optional_fields(given: dict[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for key, value in given.items():
        match key:
            case "n" | "beam" | "block_tokens" | "prefix_tokens":
                fields[key] = count(key, value)
            case "tokens" | "blocks":
                fields[key] = ids(key, value)
            case "prefix" | "session":
                fields[key] = name(key, value)
            case "beam_parents":
                fields[key] = _parents(value)
            case "priority":
                fields[key] = _priority(value)
            case _:
                pass
    return fields


def _parents(value: object) -> tuple[tuple[int, ...], ...]:
    if not isinstance(value, list):
        raise FieldError("beam_parents", f"{shown(value)} must be a list of lists, one for each decode step")
    return tuple(ids("beam_parents", step) for step in cast("list[object]", value))


def _priority(value: object) -> int:
    if type(value) is not int or abs(value) > 10**9:
        raise FieldError("priority", f"{shown(value)} must be a whole number")
    return value


def json_line(request: Request) -> str:
    """The request as one line of JSON without its line end. Fields at their default are left out."""
    row: dict[str, Any] = {
        "id": request.id,
        "arrival": request.arrival_s,
        "prompt": request.prompt,
        "output": request.output,
    }
    if request.max_tokens != request.output:
        row["max_tokens"] = request.max_tokens
    for key in OPTIONAL_KEYS[1:]:
        value = getattr(request, key)
        if value != _DEFAULTS.get(key):
            row[key] = value
    return json.dumps(row)
