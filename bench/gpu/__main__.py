"""Everything that only a GPU can show, in one run without a network; at most 6 minutes on an H200.

    python -m bench.gpu                      -> bench/results/gpu.json
    python -m bench.gpu --smoke --out FILE  every section, tiny, on the CPU, kernels in the interpreter:
                                            shows that the script runs to its end, and measures nothing

Each section is caught by itself: a failure is written down, and the rest goes on. Each has a share of the
time, and begins no case after that; what was left out is named. The document is written after each section,
so that a run that is cut off has lost one at most.
"""

import argparse
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench.machine import RESULTS
from bench.machine import describe as describe_machine

BUDGET_S = 330  # nothing begins later, so that what has begun ends within the 6 minutes
Section = Callable[[Any], dict[str, Any]]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--smoke", action="store_true", help="tiny sizes on the CPU")
    parser.add_argument("--only", default="", help="some sections: correctness,decode")
    parser.add_argument("--out", default=str(RESULTS / "gpu.json"))
    begun = time.perf_counter()
    options = parser.parse_args(arguments)
    if options.smoke:
        os.environ["TRITON_INTERPRET"] = "1"
    import torch

    if not options.smoke and not torch.cuda.is_available():
        sys.exit("bench.gpu needs a CUDA device that torch can use; --smoke runs it through on a CPU")
    device = torch.device("cpu" if options.smoke else "cuda")
    document: dict[str, Any] = {
        "machine": machine(device),
        "command": " ".join(["python -m bench.gpu", *sys.argv[1:]]),
        "smoke": options.smoke,
    }
    for found in run(options.only.split(",") if options.only else [], device, begun):
        document |= {"sections": found, "targets": targets(found, is_smoke=options.smoke)}
        document["seconds"] = time.perf_counter() - begun
        Path(options.out).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    for row in document["targets"]:
        print(row)
    failed = [name for name, section in document["sections"].items() if "error" in section]
    print(f"sections that failed: {', '.join(failed) or 'none'}")


def machine(device: Any) -> dict[str, Any]:
    """Device and versions."""
    import torch

    facts = describe_machine("torch", "triton", "numpy")
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        facts |= {"gpu": properties.name, "multiprocessors": properties.multi_processor_count}
        facts |= {"gpu_bytes": properties.total_memory, "cuda": torch.version.cuda}
    return facts


def sections() -> dict[str, tuple[Section, float]]:
    """Name -> function, and the seconds after which it begins no other case."""
    from bench.gpu import ahead, correct, engine_paths, moves, peers, speed, spine

    return {
        "compiled": (ahead.ahead, 75),
        "correctness": (correct.correctness, 170),
        "engine": (engine_paths.engine_paths, 40),
        "decode": (speed.decode, 45),
        "short": (speed.short, 20),
        "block_sizes": (speed.block_sizes, 25),
        "prefill": (speed.prefill, 25),
        "write": (moves.write, 15),
        "copy": (moves.copy, 15),
        "swap": (moves.swap, 15),
        "spine": (spine.spine, 50),
        "chunks": (speed.chunks, 15),
        "launches": (speed.launches, 30),
        "peers": (peers.peers, 60),
    }


def run(only: list[str], device: Any, begun: float) -> Iterator[dict[str, Any]]:
    """All sections, the most wanted first; what is found so far, after each. One that would begin too late to
    end in time is left out."""
    from bench.gpu.here import Here
    from bench.gpu.speed import copy_bandwidth

    found: dict[str, Any] = {"copy_bandwidth": guarded(lambda: copy_bandwidth(device))}
    yardstick = found["copy_bandwidth"].get("result", {}).get("bytes_per_s", float("nan"))
    for name, (section, share_s) in sections().items():
        if only and name not in only:
            continue
        now = time.perf_counter()
        here = Here(device, yardstick)
        if here.is_gpu:
            here.stop_at = min(now + share_s, begun + BUDGET_S)
        if here.is_over():
            found[name] = {"skipped": f"{now - begun:.0f} s are gone, nothing begins after {BUDGET_S} s"}
        else:
            found[name] = guarded(lambda section=section, here=here: section(here))
            found[name] |= {"left_out": here.left_out} if here.left_out else {}
            failed = ", FAILED" * ("error" in found[name])
            print(f"{name}: {found[name]['took_s']:.1f} s{failed}", file=sys.stderr)
        yield found


def guarded(section: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Its result or its traceback, and the time it took. Gives the GPU's memory back."""
    import torch

    begun = time.perf_counter()
    try:
        outcome: dict[str, Any] = {"result": section()}
    except Exception:  # noqa: BLE001  (any failure is a finding, and the other sections must run)
        outcome = {"error": traceback.format_exc()[-6000:]}
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return {**outcome, "took_s": time.perf_counter() - begun}


def targets(found: dict[str, Any], *, is_smoke: bool) -> list[dict[str, Any]]:
    """What was aimed at, what came out, and whether it was met; None where nothing was measured."""

    def at(section: str, *path: str) -> Any:
        value = found.get(section, {}).get("result", {})
        for key in path:
            value = value.get(key, {}) if isinstance(value, dict) else {}
        return None if is_smoke or value == {} else value

    rows: list[dict[str, Any]] = []

    def judge(what: str, value: Any, limit: float, *, is_most: bool = False) -> None:
        is_met = None if value is None else (value <= limit if is_most else value >= limit)
        rows.append({"target": what, "limit": limit, "measured": value, "met": is_met})

    for name, row in (found.get("decode", {}).get("result", {}) or {}).items():
        if row["kv_bytes"] >= 256e6:
            judge(f"decode {name}: share of copy bandwidth", at("decode", name, "share_of_copy"), 0.90)
    for name in (found.get("short", {}).get("result", {}) or {}) if not is_smoke else ():
        judge(f"{name}: prefill kernel's time over ours", at("short", name, "by_the_prefill_kernel"), 1.0)
    slower = at("block_sizes", "16", "slower_than_contiguous")
    judge("pages of 16 slower than contiguous", slower, 0.03, is_most=True)
    judge("prefill 8k causal, FLOP/s", at("prefill", "8k", "flop_per_s"), 350e12)
    for name in ("correctness", "engine"):
        rows.append(all_right(name, found.get(name), is_smoke=is_smoke))
    rows.extend(against_peers(found.get("peers", {}).get("result", {}), is_smoke=is_smoke))
    return rows


def all_right(name: str, section: dict[str, Any] | None, *, is_smoke: bool) -> dict[str, Any]:
    """The share of a section's checks that are right. Those for which there was no time are not, and are
    named; a section that failed or was skipped has none that is."""
    row: dict[str, Any] = {"target": f"{name}: all right", "limit": 1.0, "measured": None, "met": None}
    if section is None or is_smoke:
        return row
    checks, left_out = section.get("result", {}), section.get("left_out", [])
    wrong = [check for check, outcome in checks.items() if not outcome["ok"]]
    num_right, num_all = len(checks) - len(wrong), len(checks) + len(left_out)
    row["measured"] = num_right / num_all if num_all else 0.0
    return row | {"met": row["measured"] == 1.0, "wrong": wrong, "left_out": left_out}


def against_peers(peers: dict[str, Any], *, is_smoke: bool) -> list[dict[str, Any]]:
    """Seconds of the fastest peer over ours, for each shape."""
    rows: list[dict[str, Any]] = []
    for shape in dict.fromkeys(name.partition(":")[0] for name in peers):
        seconds = {
            name.partition(": ")[2]: row["seconds"]
            for name, row in peers.items()
            if name.startswith(f"{shape}:") and "seconds" in row
        }
        ours = seconds.pop("pagelab", None)
        if ours and seconds and not is_smoke:
            fastest = min(seconds, key=lambda name: seconds[name])
            ratio = seconds[fastest] / ours
            row = {
                "target": f"{shape}: ahead of {fastest}",
                "limit": 1.0,
                "measured": ratio,
                "met": ratio >= 1,
            }
            rows.append(row)
    return rows


if __name__ == "__main__":
    main()
