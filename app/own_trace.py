"""A trace of the visitor's own: a file, pasted text, a table, or the few rows that an address holds."""

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from sim import InputError, Trace
from sim.request import Request

MAX_UPLOAD_MB = 20
MOST_IN_ADDRESS = 60  # requests; an address of about a thousand characters
COLUMNS = ("id", "arrival", "prompt", "output", "max_tokens", "n", "prefix", "prefix_tokens")
PLAIN = ("arrival", "prompt", "output")  # what an address carries


def read_upload(name: str, data: bytes) -> Trace:
    """The trace in an uploaded file, called by the name it had. Raises InputError as `Trace.read` does."""
    if len(data) > MAX_UPLOAD_MB * 2**20:
        raise InputError(f"{name}: {len(data) / 2**20:.0f} MiB; the page takes {MAX_UPLOAD_MB}, cut the file")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / (Path(name).name or "upload")
        path.write_bytes(data)
        try:
            return Trace.read(path)
        except InputError as error:
            raise InputError(str(error).replace(f"{folder}/", "")) from None


def read_text(text: str) -> Trace:
    """The trace in pasted text, in any format that a file may have."""
    return read_upload("pasted text", text.strip().encode() + b"\n" if text.strip() else b"")


def read_table(rows: Sequence[Mapping[str, Any]]) -> Trace:
    """The trace in a table of `COLUMNS`; empty cells and rows are left out, a row without an id gets one."""
    lines: list[bytes] = []
    for place, row in enumerate(rows):
        given = {name: row[name] for name in COLUMNS if not _is_empty(row.get(name))}
        if given:
            lines.append(orjson.dumps({"id": f"r{place}", **given}))
    if not lines:
        raise InputError("table: it has no row; add one with arrival, prompt and output")
    try:
        return read_upload("table", b"\n".join(lines) + b"\n")
    except InputError as error:
        raise InputError(str(error).replace("table, line", "table, row")) from None


def _is_empty(value: Any) -> bool:
    return value is None or value == "" or value != value  # a NaN is what an empty cell becomes


def table_of(requests: Iterable[Request]) -> list[dict[str, Any]]:
    """The requests as rows for a table. Cells that say no more than the default are empty."""
    return [
        {
            "id": one.id,
            "arrival": one.arrival_s,
            "prompt": one.prompt,
            "output": one.output,
            "max_tokens": one.max_tokens if one.max_tokens != one.output else None,
            "n": one.n if one.n > 1 else None,
            "prefix": one.prefix,
            "prefix_tokens": one.prefix_tokens or None,
        }
        for one in requests
    ]


def to_address(rows: Sequence[Mapping[str, Any]]) -> str | None:
    """`arrival:prompt:output` for each row, or None where an address cannot carry the table."""
    kept = [row for row in rows if not all(_is_empty(row.get(name)) for name in COLUMNS)]
    is_plain = all(_is_empty(row.get(name)) for row in kept for name in COLUMNS[4:])
    if len(kept) > MOST_IN_ADDRESS or not is_plain:
        return None
    return ";".join(":".join(_number(row.get(name)) for name in PLAIN) for row in kept)


def _number(value: Any) -> str:
    """Tables give whole numbers as floats."""
    if _is_empty(value):
        return ""
    return str(int(value)) if value == int(value) else repr(value)


def from_address(text: str) -> list[dict[str, Any]]:
    """The table that an address carries. Raises InputError with the row that is none."""
    rows: list[dict[str, Any]] = []
    for place, part in enumerate(text.split(";")[: MOST_IN_ADDRESS + 1]):
        try:
            arrival, prompt, output = part.split(":")
            rows.append(
                {"id": f"r{place}", "arrival": float(arrival), "prompt": int(prompt), "output": int(output)}
            )
        except ValueError:
            raise InputError(
                f"row {place + 1}, {part[:30]!r}: must be arrival:prompt:output, such as 0:240:17"
            ) from None
    if len(rows) > MOST_IN_ADDRESS:
        raise InputError(f"more than {MOST_IN_ADDRESS} rows; send the trace as a file instead")
    return rows
