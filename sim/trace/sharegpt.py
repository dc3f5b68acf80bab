"""ShareGPT JSON: a list of conversations, of which the first prompt and its reply make a request.

The file holds text, not token counts, and PageLab brings no tokenizer: lengths are an estimate of
`CHARACTERS_PER_TOKEN` characters a token, rounded up, and the trace says so. Arrivals are generated.
"""

import json
from itertools import pairwise
from typing import Any, cast

from sim.request import Request
from sim.trace.fields import shown
from sim.trace.length_only import generated_times
from sim.trace.reading import Reading, ReadOptions
from sim.trace.source import Source

CHARACTERS_PER_TOKEN = 4  # English text, byte-pair encodings of 30k to 130k entries
PROMPT_ROLES = frozenset({"human", "user"})

TOO_SHORT = "no prompt with a reply"
EMPTY = "empty prompt or reply"


def read_sharegpt(source: Source, options: ReadOptions) -> Reading:
    """One request a conversation; the conversation's id is its session."""
    reading = Reading()
    rows: list[tuple[int, int, str | None]] = []
    for place, conversation in enumerate(_conversations(source), start=1):
        exchange = _first_exchange(source, place, conversation["conversations"])
        if exchange is None:
            reading.skipped[TOO_SHORT] += 1
        elif not all(text.strip() for text in exchange):
            reading.skipped[EMPTY] += 1
        else:
            prompt, output = map(_estimated_tokens, exchange)
            rows.append((prompt, output, _session(conversation.get("id"))))
    reading.notes.append(
        f"token counts are an estimate, not measured: {CHARACTERS_PER_TOKEN} characters a token, rounded up"
    )
    times = generated_times(len(rows), options, reading)
    for place, (time, (prompt, output, session)) in enumerate(zip(times, rows, strict=True)):
        request = Request(
            id=f"r{place}", arrival_s=time, prompt=prompt, output=output, max_tokens=output, session=session
        )
        reading.requests.append(request)
    return reading


def _estimated_tokens(text: str) -> int:
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def _session(value: object) -> str | None:
    return value if isinstance(value, str) and value and value.isprintable() else None


def _conversations(source: Source) -> list[dict[str, Any]]:
    try:
        value: object = json.loads("\n".join(source.lines))
    except json.JSONDecodeError as error:
        raise source.error(f"is not JSON: {error.msg}", line=error.lineno) from None
    except (ValueError, RecursionError):
        raise source.error("cannot be read as JSON: nested too deeply, or an integer too long") from None
    if not isinstance(value, list):
        raise source.error(f"{shown(type(value).__name__)} must be a list of conversations")
    items = cast("list[object]", value)
    for place, item in enumerate(items, start=1):
        known = cast("dict[str, Any]", item) if isinstance(item, dict) else {}
        if not isinstance(known.get("conversations"), list):
            raise source.error(f"conversation {place}: must be an object with a list 'conversations'")
    return cast("list[dict[str, Any]]", items)


def _first_exchange(source: Source, place: int, turns: list[Any]) -> tuple[str, str] | None:
    """Text of the first prompt that is followed by a reply, and of that reply."""
    parts = [_turn(source, place, turn) for turn in turns]
    for (role, text), (next_role, reply) in pairwise(parts):
        if role in PROMPT_ROLES and next_role not in PROMPT_ROLES:
            return text, reply
    return None


def _turn(source: Source, place: int, turn: object) -> tuple[str, str]:
    if isinstance(turn, dict):
        fields = cast("dict[str, Any]", turn)
        role, text = fields.get("from"), fields.get("value")
        if isinstance(role, str) and isinstance(text, str):
            return role, text
    raise source.error(f"conversation {place}: a turn must be an object with texts 'from' and 'value'")
