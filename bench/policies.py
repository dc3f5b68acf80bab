"""One model and one trace under every policy: each says the same text, and each is what was simulated.

    pagelab model get smollm2
    python -m bench.policies        # writes bench/results/policies.json, with the seconds of each

50 prompts cut from a real text, all of which begin alike so that a prefix cache has something to find. Every
policy serves them with real tensors on a clock of one second a step; the simulator gets the same trace. Kept
of each: whether all tokens equal the first policy's, and the first thing in which memory differed from the
simulation, if any did.
"""

import argparse
import hashlib
import json
import time
from pathlib import Path
from typing import Any

from bench.machine import RESULTS, describe
from bench.peers.work import Work, draw_work
from engine import measure
from engine.agreement import agreement
from engine.measured_run import MeasuredRun
from sim import Config, Request, Trace, simulate

MODEL = "smollm2-135m"
SHARED_TOKENS = 32  # of every prompt's beginning
COMMON: dict[str, Any] = {
    "model": MODEL, "kv_dtype": "fp32", "timing": "unit", "hardware": "laptop",
    "pool_tokens": 8192, "max_len": 512, "max_seqs": 16,
}  # fmt: skip
TIGHT = {"pool_tokens": 1024}  # less than 16 requests want
POLICIES: dict[str, dict[str, Any]] = {
    "paged": {},
    "blocks-of-1": {"block_size": 1},
    "blocks-of-7": {"block_size": 7},
    "max": {"allocator": "max"},
    "max-first-fit": {"allocator": "max", "placement": "first-fit"},
    "pow2": {"allocator": "pow2"},
    "oracle": {"allocator": "oracle"},
    "grow": {"allocator": "grow"},
    "slab": {"allocator": "slab"},
    "mixed": {"allocator": "mixed"},
    "virtual": {"allocator": "virtual", "page_size": "64KiB"},
    "native-max": {"allocator": "max", "placement": "first-fit", "native": True},
    "native-cat": {"allocator": "grow", "growth": "1", "placement": "first-fit", "native": True},
    "recompute": TIGHT,
    "swap": {**TIGHT, "preempt": "swap"},
    "chunked": {"chunked_prefill": True, "max_batch_tokens": 64},
    "prefix-hash": {"prefix_cache": "hash"},
    "prefix-radix": {"prefix_cache": "radix"},
    "speculate": {"speculate": 3},
    "static": {"batching": "static"},
    "sequential": {"batching": "sequential"},
    "all-at-once": {
        **TIGHT, "preempt": "swap", "chunked_prefill": True, "max_batch_tokens": 64, "prefix_cache": "hash",
    },
}  # fmt: skip


def trace_of(work: Work) -> Trace:
    """The work as requests at t = 0, every prompt with the first prompt's beginning."""
    shared = work.prompts[0][:SHARED_TOKENS]
    prompts = [[*shared, *ids[len(shared) :]] for ids in work.prompts]
    requests = [
        Request(
            id=f"p{i}", arrival_s=0.0, prompt=len(ids), output=output, max_tokens=output, tokens=tuple(ids)
        )
        for i, (ids, output) in enumerate(zip(prompts, work.outputs, strict=True))
    ]
    return Trace("work", tuple(requests))


def serve(trace: Trace, dials: dict[str, Any]) -> tuple[MeasuredRun, dict[str, Any]]:
    """The run under these dials, in place of the common ones, and what is kept of it."""
    native = dials.get("native", False)
    config = Config(**{**COMMON, **{name: value for name, value in dials.items() if name != "native"}})
    start = time.perf_counter()
    run = measure(trace, config, clock="modelled", native=native)
    entry = {
        "dials": dials,
        "seconds": time.perf_counter() - start,
        "steps": run.num_steps,
        "preemptions": run.num_preemptions,
        "hit_tokens": sum(group.hit_tokens for group in run.groups),
        "waste_percent": run.report()["waste_percent"],
        "min_margin": run.min_margin,
        "first_difference": agreement(simulate(trace, config), run)["first_difference"],
    }
    return run, entry


def document(trace: Trace, names: list[str]) -> dict[str, Any]:
    """Every policy's entry, as one result file."""
    entries: dict[str, dict[str, Any]] = {}
    expected: dict[str, list[int]] = {}
    for name in names:
        run, entry = serve(trace, POLICIES[name])
        expected = expected or run.tokens
        same = sum(run.tokens[one] == said for one, said in expected.items())
        entries[name] = {**entry, "same_text": same, "tokens_sha256": digest(run.tokens)}
        print(sentence(name, entries[name], len(expected)), flush=True)
    return {
        "machine": describe("torch", "numba"),
        "command": "python -m bench.policies",
        "common": COMMON,
        "requests": trace.num_requests,
        "prompt_tokens": sum(request.prompt for request in trace.requests),
        "output_tokens": sum(request.output for request in trace.requests),
        "policies": entries,
    }


def digest(tokens: dict[str, list[int]]) -> str:
    """Of all that was said, in the order of requests."""
    return hashlib.sha256(json.dumps(sorted(tokens.items())).encode()).hexdigest()


def sentence(name: str, entry: dict[str, Any], num_requests: int) -> str:
    """One line for people."""
    difference = entry["first_difference"]
    return (
        f"{name:<13} {entry['steps']:5} steps {entry['preemptions']:4} preemptions "
        f"{entry['hit_tokens']:5} tokens hit "
        f"{entry['same_text']}/{num_requests} same text, "
        f"{'as simulated' if difference is None else difference}; {entry['seconds']:.0f} s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--requests", type=int, default=50)
    parser.add_argument("--only", nargs="+", choices=list(POLICIES), default=list(POLICIES))
    parser.add_argument("--out", type=Path, default=RESULTS / "policies.json")
    options = parser.parse_args()
    made = document(trace_of(draw_work(MODEL, options.requests, 0)), options.only)
    options.out.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
