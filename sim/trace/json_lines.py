"""JSON objects of a trace, one a line, every mistake with its place."""

import json
from collections.abc import Iterator
from typing import Any, cast

from sim.trace.fields import FieldError
from sim.trace.source import Source


def parse_object(text: str) -> dict[str, Any]:
    """The JSON object in `text`. Raises `FieldError` for anything else, and when a key stands twice."""
    try:
        value: object = json.loads(text, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        raise FieldError(f"column {error.colno}", f"is not JSON: {error.msg}") from None
    except RecursionError:
        raise FieldError("JSON", "is nested too deeply") from None
    except FieldError:
        raise
    except ValueError:
        raise FieldError("JSON", "holds an integer of too many digits") from None
    if not isinstance(value, dict):
        raise FieldError("JSON", "must be one object, such as {...}, a line")
    return cast("dict[str, Any]", value)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise FieldError(twice[:40], "the key stands twice; remove one")
    return result


def read_objects(source: Source) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line number and object of each line that is not blank."""
    for number, line in enumerate(source.lines, start=1):
        if line.strip():
            try:
                row = parse_object(line)
            except FieldError as error:
                raise source.error(error.problem, line=number, field=error.field) from None
            yield number, row


def required(row: dict[str, Any], key: str) -> Any:
    """The value of a key that must be there."""
    if key not in row:
        raise FieldError(key, f"is missing; the line has {', '.join(row)[:200] or 'no keys'}")
    return row[key]
