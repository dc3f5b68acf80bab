"""Qwen-Bailian traces (JSON Lines, Apache-2.0): chat_id, parent_chat_id, timestamp (s), lengths, hash_ids.

`hash_ids` name blocks of 16 prompt tokens, the last may be partial. Each turn's prompt already holds the
history of its chat.
"""

from dataclasses import replace
from typing import Any

from sim.errors import printable
from sim.request import Request
from sim.trace.fields import FieldError, count, ids, seconds
from sim.trace.json_lines import read_objects, required
from sim.trace.mooncake import check_blocks
from sim.trace.reading import Reading, ReadOptions
from sim.trace.source import Source

KEYS = ("chat_id", "parent_chat_id", "timestamp", "input_length", "output_length", "hash_ids")
DESCRIPTIVE_KEYS = frozenset({"type", "turn"})
BLOCK_TOKENS = 16


def read_bailian(source: Source, options: ReadOptions) -> Reading:
    """Ids are chat ids; a session is named after its first chat in the file. The earliest arrival is 0."""
    reading = Reading()
    parents: dict[int, int] = {}
    unused: set[str] = set()
    for line, row in read_objects(source):
        try:
            chat = count("chat_id", required(row, "chat_id"), least=0, most=2**63)
            if chat in parents:
                raise FieldError("chat_id", f"{chat} stands on an earlier line too; chat ids must be unique")
            parents[chat] = count("parent_chat_id", required(row, "parent_chat_id"), least=-1, most=2**63)
            reading.requests.append(_request(row, str(chat)))
        except FieldError as error:
            raise source.error(error.problem, line=line, field=error.field) from None
        unused.update(row.keys() - {*KEYS, *DESCRIPTIVE_KEYS})
    if unused:
        reading.notes.append(printable(f"keys not used: {', '.join(sorted(unused))}"))
    start_s = min(request.arrival_s for request in reading.requests)
    for place, request in enumerate(reading.requests):
        root = _root(int(request.id), parents)
        arrival_s = round(request.arrival_s - start_s, 6)
        reading.requests[place] = replace(request, arrival_s=arrival_s, session=str(root))
    return reading


def _request(row: dict[str, Any], request_id: str) -> Request:
    output = count("output_length", required(row, "output_length"))
    request = Request(
        id=request_id,
        arrival_s=seconds("timestamp", required(row, "timestamp")),
        prompt=count("input_length", required(row, "input_length")),
        output=output,
        max_tokens=output,
        blocks=ids("hash_ids", required(row, "hash_ids")),
        block_tokens=BLOCK_TOKENS,
    )
    check_blocks(request)
    return request


def _root(chat: int, parents: dict[int, int]) -> int:
    """The earliest ancestor in the file (a parent may lie outside its window); the smallest id of a cycle."""
    seen = [chat]
    while parents[seen[-1]] in parents:
        if parents[seen[-1]] in seen:
            return min(seen)
        seen.append(parents[seen[-1]])
    return seen[-1]
