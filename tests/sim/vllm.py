"""What vLLM 0.32's own scheduler and block pool did with random traces: `data/vllm_golden.jsonl.gz`.

How the file was made: shared/notes/vllm_oracle.md.
"""

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

from sim import Config, Request, Run, Trace

GOLDEN = Path(__file__).parent / "data" / "vllm_golden.jsonl.gz"


@cache
def scenarios(*, prefix: bool) -> list[dict[str, Any]]:
    """Those with, or those without, prefix caching."""
    with gzip.open(GOLDEN, "rt") as lines:
        return [case for case in map(json.loads, lines) if case["scenario"]["prefix"] == prefix]


def seed_of(case: dict[str, Any]) -> str:
    """Names a case in a test's id."""
    return str(case["scenario"]["seed"])


def trace_of(scenario: dict[str, Any]) -> Trace:
    """Its requests in order of arrival; a prompt is a length, or a list of token ids."""
    return Trace("golden", tuple(request_of(row) for row in sorted(scenario["rows"], key=lambda row: row[3])))


def request_of(row: tuple[str, Any, int, int]) -> Request:
    """One row: id, prompt, output, step of arrival."""
    id, prompt, output, arrival = row
    tokens = None if isinstance(prompt, int) else tuple(prompt)
    return Request(
        id=id,
        arrival_s=float(arrival),
        prompt=prompt if tokens is None else len(tokens),
        output=output,
        max_tokens=output,
        tokens=tokens,
    )


def config_of(scenario: dict[str, Any], **more: Any) -> Config:
    """vLLM's policy on the scenario's pool."""
    return Config(
        pool_blocks=scenario["blocks"],
        block_size=scenario["block_size"],
        max_seqs=scenario["max_seqs"],
        max_batch_tokens=scenario["budget"],
        chunked_prefill=True,
        max_len=100_000,
        timing="unit",
        **more,
    )


def assert_same_schedule(run: Run, case: dict[str, Any]) -> None:
    """Finish times, preemptions, steps and the blocks free at the end are vLLM's."""
    scenario, vllm = case["scenario"], case["vllm"]
    assert {entry["id"]: entry["finish"] for entry in run.requests} == vllm["finish"]
    assert {e["id"]: e["preemptions"] for e in run.requests if e["preemptions"]} == vllm["preempted"]
    assert run.num_steps == vllm["steps"]
    assert run.free_at_end == vllm["free"] * scenario["block_size"]
