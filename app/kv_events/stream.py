"""Reading a stream that vLLM published: batches of BlockStored, BlockRemoved and AllBlocksCleared.

A file holds the payloads one after the other, as msgpack (what vLLM sends) or as JSON: a line each, indented,
or all in one array. Both come in two dresses, by vLLM's version: positional arrays or maps with a `type`.

    [ts, [["BlockStored", block_hashes, parent_block_hash, token_ids, block_size, lora_id, medium]], rank]
    {"ts": ts, "events": [{"type": "BlockStored", "block_hashes": [...], ...}], "data_parallel_rank": 0}

Source: vllm/distributed/kv_events.py. Hashes are integers or bytes (base64 texts in JSON).
"""

# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# (msgpack says nothing of its types)

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import msgpack  # pyright: ignore[reportMissingTypeStubs]

from sim import InputError
from sim.files import reason
from sim.words import counted

Hash = int | str | bytes
FIELDS = {
    "BlockStored": ("block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium"),
    "BlockRemoved": ("block_hashes", "medium"),
    "AllBlocksCleared": (),
}
SPACE = re.compile(r"\s*")
MOST_BYTES = 2**30
MOST_BLOCK_TOKENS = 2**16


@dataclass(frozen=True, slots=True)
class Stored:
    """Full blocks, one behind the other; `parent` is the block before the first, None at a prompt's start."""

    hashes: tuple[Hash, ...]
    parent: Hash | None
    num_tokens: int
    block_size: int
    medium: str | None


@dataclass(frozen=True, slots=True)
class Removed:
    """Blocks whose content is lost."""

    hashes: tuple[Hash, ...]
    medium: str | None


@dataclass(frozen=True, slots=True)
class Cleared:
    """The whole cache is forgotten."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What one engine step published; `time` is the server's clock in seconds."""

    time: float
    events: list[Stored | Removed | Cleared] = field(default_factory=list[Stored | Removed | Cleared])


def read_stream(path: Path) -> list[Batch]:
    """All batches of a file. Raises InputError with the number of the first one that is damaged."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise InputError(f"{path}: over {MOST_BYTES // 2**30} GiB; cut the stream into pieces")
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {reason(error)}") from None
    batches: list[Batch] = []
    unpacked = _json(path, data) if data[:1] < b"\x80" else _msgpack(path, data)
    for number, value in enumerate(unpacked, start=1):
        try:
            batches.append(_batch(value))
        except InputError as error:
            raise InputError(f"{path}, batch {number}: {error}") from None
    if not batches:
        raise InputError(f"{path}: holds no batch of events")
    return batches


def _json(path: Path, data: bytes) -> Iterator[Any]:
    """Values one after the other, whatever stands between them; an array that is no batch holds batches."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is neither JSON nor msgpack ({error})") from None
    decoder, place = json.JSONDecoder(), _after_space(text, 0)
    while place < len(text):
        try:
            value, place = decoder.raw_decode(text, place)
        except (ValueError, RecursionError) as error:
            line = text.count("\n", 0, place) + 1
            raise InputError(f"{path}, line {line}: is neither JSON nor msgpack ({error})") from None
        yield from value if _is_list_of_batches(value) else [value]
        place = _after_space(text, place)


def _after_space(text: str, place: int) -> int:
    return SPACE.match(text, place).end()  # pyright: ignore[reportOptionalMemberAccess]  it may be empty


def _is_list_of_batches(value: Any) -> bool:
    """A batch begins with its time, and a list of batches with a batch."""
    return isinstance(value, list) and bool(value) and isinstance(value[0], list | dict)


def _msgpack(path: Path, data: bytes) -> Iterator[Any]:
    unpacker: Any = msgpack.Unpacker(max_buffer_size=len(data), strict_map_key=False)
    unpacker.feed(data)
    start: int = 0
    while start < len(data):
        try:
            value: Any = unpacker.unpack()
        except (ValueError, TypeError, msgpack.UnpackException, RecursionError, OverflowError) as error:
            text = str(error) or "cut short"
            raise InputError(f"{path}, byte {start}: is no whole msgpack value ({text})") from None
        start = unpacker.tell()
        yield value


def _batch(value: Any) -> Batch:
    if isinstance(value, dict):
        known = cast("dict[str, Any]", value)
        value = [known.get("ts"), known.get("events")]
    if not isinstance(value, list) or len(cast("list[Any]", value)) < 2:
        raise InputError("must be [ts, events, ...] or a map with ts and events")
    time, events = cast("list[Any]", value)[:2]
    if isinstance(time, bool) or not isinstance(time, (int, float)) or not 0 <= time < 1e12:
        raise InputError(f"ts {str(time)[:40]!r}: must be seconds")
    if not isinstance(events, list):
        raise InputError("events must be a list")
    return Batch(float(time), [_event(event) for event in cast("list[Any]", events)])


def _event(value: Any) -> Stored | Removed | Cleared:
    fields = _fields(value)
    kind = fields["type"]
    if kind == "AllBlocksCleared":
        return Cleared()
    medium = fields.get("medium")
    if medium is not None and not isinstance(medium, str):
        raise InputError(f"{kind}, medium {str(medium)[:40]!r}: must be a text or null")
    hashes = fields.get("block_hashes")
    if not isinstance(hashes, list) or not all(_is_hash(one) for one in cast("list[Any]", hashes)):
        raise InputError(f"{kind}, block_hashes: must be a list of integers or bytes")
    blocks = tuple(cast("list[Hash]", hashes))
    if kind == "BlockRemoved":
        return Removed(blocks, medium)
    tokens, size, parent = fields.get("token_ids"), fields.get("block_size"), fields.get("parent_block_hash")
    if type(size) is not int or not 1 <= size <= MOST_BLOCK_TOKENS:
        raise InputError(f"{kind}, block_size {str(size)[:40]!r}: must be from 1 to {MOST_BLOCK_TOKENS}")
    if parent is not None and not _is_hash(parent):
        raise InputError(f"{kind}, parent_block_hash {str(parent)[:40]!r}: must be an integer, bytes or null")
    num_tokens = len(cast("list[Any]", tokens)) if isinstance(tokens, list) else -1
    if num_tokens != size * len(blocks):
        raise InputError(
            f"{kind}: token_ids must be {counted(len(blocks), 'blocks')} of {size}, are {num_tokens}"
        )
    return Stored(blocks, parent, num_tokens, size, medium)


def _fields(value: Any) -> dict[str, Any]:
    """By name, whichever dress the event wears."""
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
    elif isinstance(value, list) and value:
        kind, *rest = cast("list[Any]", value)
        names = FIELDS.get(kind, ()) if isinstance(kind, str) else ()
        fields = {"type": kind, **dict(zip(names, rest, strict=False))}
    else:
        fields = {}
    kind = fields.get("type")
    if not isinstance(kind, str) or kind not in FIELDS:
        raise InputError(f"event {str(kind)[:40]!r}: known are {', '.join(FIELDS)}")
    return fields


def _is_hash(value: object) -> bool:
    return type(value) in (int, str, bytes)
