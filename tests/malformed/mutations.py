"""What is done to a valid file so that it is one no longer."""

import gzip
import json
import re
from collections.abc import Callable, Generator, Sequence
from random import Random
from typing import Any

NASTY_VALUES: tuple[Any, ...] = (
    None, True, False, -1, 0, 1.5, -0.0, 1e308, float("nan"), float("inf"), 10**9 + 1, 2**31, 2**63, 10**40, -(2**64),
    "", " ", "x", "1", " 7 ", "1e9", "nan", "\u0967\u0968", "\x00", "\x1b[31m", "a\nb", "\u2028", "\ud800", "../../etc/passwd", "%s%n",
    "x" * 5000, [], {}, [[]], [None], [1, 2, 3], [[0]] * 3, {"a": {"b": []}}, {"": 0},
)  # fmt: skip
NASTY_CELLS = (
    "", " ", "-1", "0", "1.5", "1e3", "1e999", "nan", "inf", "-inf", "x", "9" * 40, "9" * 5000, "0x10", "1_000", "\u0967", "\x00",
    '"', '"open', "'", ",", ",,,,", "\x1b[31m", "\r", "\n", "\t", "2023-13-45 99:99:99", "9999-12-31T23:59:59+14:00", "NaT",
    "\u2028", "\ufeff", "=1+1", "{}", "[]", "true", "null",
)  # fmt: skip
NASTY_BYTES = (
    b"\x00", b"\xff", b"\xfe\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\x1f\x8b", b"\xef\xbb\xbf", b"[" * 100_000,
    b'{"a":' * 20_000, b"9" * 10_000, b"\xff" * 8, b"\x00" * 8, b"\xff\xff\xff\x7f", b"\x00\x00\x00\x80",
)  # fmt: skip

Mutation = Callable[[Random, bytes], bytes]


def flip_bytes(random: Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 8))):
        changed[random.randrange(len(changed))] = random.randrange(256)
    return bytes(changed)


def cut(random: Random, data: bytes) -> bytes:
    return data[: random.randrange(len(data))]


def remove_piece(random: Random, data: bytes) -> bytes:
    start = random.randrange(len(data))
    return data[:start] + data[start + random.choice((1, 2, 8, 50)) :]


def repeat_piece(random: Random, data: bytes) -> bytes:
    start = random.randrange(len(data))
    stop = start + random.choice((1, 2, 8, 50))
    return data[:stop] + data[start:stop] * random.choice((1, 3)) + data[stop:]


def insert_bytes(random: Random, data: bytes) -> bytes:
    place = random.randrange(len(data) + 1)
    return data[:place] + random.choice(NASTY_BYTES) + data[place:]


def overwrite_bytes(random: Random, data: bytes) -> bytes:
    place, bad = random.randrange(len(data)), random.choice(NASTY_BYTES)[:8]
    return data[:place] + bad + data[place + len(bad) :]


def cut_gzip(random: Random, data: bytes) -> bytes:
    packed = gzip.compress(data, mtime=0)
    return random.choice((flip_bytes, cut, remove_piece, insert_bytes))(random, packed)


BINARY: tuple[Mutation, ...] = (
    flip_bytes, cut, remove_piece, repeat_piece, insert_bytes, overwrite_bytes, overwrite_bytes
)  # fmt: skip


def change_number(random: Random, data: bytes) -> bytes:
    """Some number of the text becomes what no number should be."""
    numbers = list(re.finditer(rb"-?\d+(\.\d+)?", data))
    if not numbers:
        return flip_bytes(random, data)
    found = random.choice(numbers)
    return data[: found.start()] + _utf8(random.choice(NASTY_CELLS)) + data[found.end() :]


def change_cell(random: Random, data: bytes) -> bytes:
    """A cell of a CSV file, of its header too; or one more, or one less."""
    lines = data.decode().split("\n")
    row = random.randrange(len(lines))
    cells = lines[row].split(",")
    place = random.randrange(len(cells))
    match random.randrange(4):
        case 0:
            del cells[place]
        case 1:
            cells.insert(place, random.choice(cells))
        case _:
            cells[place] = random.choice(NASTY_CELLS)
    lines[row] = ",".join(cells)
    return _utf8("\n".join(lines))


def change_lines(random: Random, data: bytes) -> bytes:
    """A line twice, a line less, two in one."""
    lines = data.split(b"\n")
    row = random.randrange(len(lines))
    match random.randrange(3):
        case 0:
            lines.insert(row, lines[random.randrange(len(lines))])
        case 1:
            del lines[row]
        case _:
            lines[row : row + 2] = [b"".join(lines[row : row + 2])]
    return b"\n".join(lines)


def change_value(random: Random, data: bytes) -> bytes:
    """A value, a key or an item somewhere in a JSON document, or in one line of JSON Lines."""
    try:
        return _dumped(change_document(random, json.loads(data)))
    except ValueError:
        pass
    lines = data.strip().split(b"\n")
    row = random.randrange(len(lines))
    lines[row] = _dumped(change_document(random, json.loads(lines[row])))
    return b"\n".join(lines)


def change_document(random: Random, document: Any) -> Any:
    """`document` with one node changed, wherever it lies."""
    node, key = random.choice([*_places(document)] or [(None, None)])
    if node is None:
        return random.choice(NASTY_VALUES)
    match random.randrange(5):
        case 0:
            del node[key]
        case 1 if isinstance(node, dict):
            node[str(random.choice(NASTY_VALUES))] = node.pop(key)
        case 1:
            node.insert(key, node[key])
        case _:
            node[key] = random.choice(NASTY_VALUES)
    return document


def _places(node: Any) -> Generator[tuple[Any, Any]]:
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        yield node, key
        yield from _places(value)


def _dumped(document: Any) -> bytes:
    return json.dumps(document).encode()


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


CSV: tuple[Mutation, ...] = (*BINARY[:5], cut_gzip, change_number, change_lines, *[change_cell] * 5)
TEXT: tuple[Mutation, ...] = (*BINARY[:5], change_number, change_number, change_lines, change_lines)
JSON: tuple[Mutation, ...] = (*BINARY[:5], cut_gzip, change_number, change_lines, *[change_value] * 6)


def mutants(seeds: Sequence[bytes], mutations: Sequence[Mutation], random: Random) -> Generator[bytes]:
    """Without end: a seed with one to three things wrong."""
    while True:
        data = random.choice(seeds)
        for _ in range(random.choice((1, 1, 1, 2, 3))):
            mutate = random.choice(mutations) if data else insert_bytes
            try:
                data = mutate(random, data)
            except (ValueError, RecursionError):  # an earlier mutation left no CSV or JSON to change further
                break
        yield data
