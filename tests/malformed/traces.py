"""Traces to spoil, of every format that is read."""

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sim import Trace
from tests.malformed.judging import Target
from tests.malformed.mutations import BINARY, CSV, JSON, Mutation


def lines(*rows: dict[str, Any]) -> bytes:
    return b"\n".join(json.dumps(row).encode() for row in rows) + b"\n"


NATIVE = (
    lines(
        {"id": "a", "arrival": 0.0, "prompt": 8, "output": 4, "max_tokens": 6, "session": "s", "priority": 1},
        {"id": "b", "arrival": 1.5, "prompt": 3, "output": 3, "beam": 2, "beam_parents": [[0, 0], [1, 0]]},
        {"id": "c", "arrival": 2, "prompt": 3, "output": 2, "n": 2, "tokens": [5, 6, 7]},
    ),
    lines(
        {"id": "d", "arrival": 0, "prompt": 8, "output": 4, "blocks": [1, 2], "block_tokens": 4},
        {"id": "e", "arrival": 0, "prompt": 8, "output": 4, "prefix": "p", "prefix_tokens": 4},
    ),
)
AZURE = (
    b"TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:17:03.9799600,4808,10\r\n2023-11-16 18:17:04.0319600,3180,8",
    b"TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00.009930+00:00,12,3\n2024-05-10 00:00:01+02:00,9,4\n",
)
BURSTGPT = (
    b"Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,18,490,Conversation log\n"
    b"45,ChatGPT,1087,0,1087,Conversation log\n",
    b"Timestamp,Session ID,Request tokens,Response tokens\n5,s1,472,18\n6,s1,10,20\n",
)
VIDUR = (b"arrived_at,num_prefill_tokens,num_decode_tokens\n0.5,4808,10\n0.552,3180,8\n",)
LENGTHS = (
    b"num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio\n74,918,992,0.08\n290,905,1195,0.32\n",
)
MOONCAKE = (
    lines(
        {"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [0, 1]},
        {"timestamp": 3000, "input_length": 1024, "output_length": 7, "hash_ids": [0, 2]},
    ),
    lines({"timestamp": 9, "input_length": 6, "output_length": 5, "session_id": "x"}),
)
BAILIAN = (
    lines(
        {"chat_id": 1, "parent_chat_id": -1, "timestamp": 0.1, "input_length": 20, "output_length": 3, "type": "text", "turn": 1, "hash_ids": [7, 8]},
        {"chat_id": 2, "parent_chat_id": 1, "timestamp": 2, "input_length": 32, "output_length": 3, "type": "text", "turn": 2, "hash_ids": [7, 9]},
    ),
)  # fmt: skip
SHAREGPT = (
    json.dumps(
        [
            {"id": "x", "conversations": [{"from": "human", "value": "Hello"}, {"from": "gpt", "value": "Hi there"}]},
            {"id": "y", "conversations": [{"from": "gpt", "value": "?"}]},
            {"conversations": [{"from": "user", "value": "a"}, {"from": "assistant", "value": "b"}]},
        ]
    ).encode(),
)  # fmt: skip


def read_trace(path: Path) -> None:
    Trace.read(path)


def traces(*seeds: bytes, mutations: Sequence[Mutation], wanted: int = 800) -> Target:
    return Target(
        seeds=lambda _: seeds, mutations=mutations, read=read_trace, file="trace.csv", wanted=wanted
    )


TRACES = {
    "native": traces(*NATIVE, mutations=JSON, wanted=1500),
    "azure": traces(*AZURE, mutations=CSV),
    "burstgpt": traces(*BURSTGPT, mutations=CSV),
    "vidur": traces(*VIDUR, mutations=CSV),
    "lengths": traces(*LENGTHS, mutations=CSV),
    "mooncake": traces(*MOONCAKE, mutations=JSON),
    "bailian": traces(*BAILIAN, mutations=JSON),
    "sharegpt": traces(*SHAREGPT, mutations=JSON),
    "gzip": traces(*(gzip.compress(one[0], mtime=0) for one in (NATIVE, AZURE, MOONCAKE)), mutations=BINARY),
}
