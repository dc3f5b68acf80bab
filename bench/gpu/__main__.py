"""Everything that only a GPU can show, in one run without a network; at most 6 minutes on an H200.

    python -m bench.gpu                      -> bench/results/gpu.json
    python -m bench.gpu --smoke --out FILE  every section, tiny, on the CPU, kernels in the interpreter:
                                            shows that the script runs to its end, and measures nothing

Each section is caught by itself: a failure is written down, and the rest goes on. Each has a share of the
time, and begins no case after that; what was left out is named.
"""

import argparse
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.machine import RESULTS
from bench.machine import describe as describe_machine

BUDGET_S = 350
Section = Callable[[Any], dict[str, Any]]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--smoke", action="store_true", help="tiny sizes on the CPU")
    parser.add_argument("--only", default="", help="some sections: correctness,decode")
    parser.add_argument("--out", default=str(RESULTS / "gpu.json"))
    options = parser.parse_args(arguments)
    if options.smoke:
        os.environ["TRITON_INTERPRET"] = "1"
    import torch

    if not options.smoke and not torch.cuda.is_available():
        sys.exit("bench.gpu needs a CUDA device that torch can use; --smoke runs it through on a CPU")
    device = torch.device("cpu" if options.smoke else "cuda")
    document = {"machine": machine(device), "command": " ".join(["python -m bench.gpu", *sys.argv[1:]])}
    document |= {
        "smoke": options.smoke,
        "sections": run(options.only.split(",") if options.only else [], device),
    }
    document["targets"] = targets(document["sections"], is_smoke=options.smoke)
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
    from bench.gpu import correct, moves, peers, speed, spine

    return {
        "correctness": (correct.correctness, 80),
        "decode": (speed.decode, 45),
        "short": (speed.short, 20),
        "block_sizes": (speed.block_sizes, 25),
        "prefill": (speed.prefill, 25),
        "write": (moves.write, 15),
        "copy": (moves.copy, 10),
        "swap": (moves.swap, 15),
        "peers": (peers.peers, 40),
        "spine": (spine.spine, 50),
        "chunks": (speed.chunks, 10),
        "launches": (speed.launches, 10),
    }


def run(only: list[str], device: Any) -> dict[str, Any]:
    """All sections, the most wanted first. One that would begin too late to end in time is left out."""
    from bench.gpu.here import Here
    from bench.gpu.speed import copy_bandwidth

    begun = time.perf_counter()
    found: dict[str, Any] = {"copy_bandwidth": guarded(lambda: copy_bandwidth(device))}
    yardstick = found["copy_bandwidth"].get("result", {}).get("bytes_per_s", float("nan"))
    for name, (section, share_s) in sections().items():
        if only and name not in only:
            continue
        now = time.perf_counter()
        here = Here(device, yardstick)
        if here.is_gpu:
            here.stop_at = min(now + share_s, begun + BUDGET_S)
        if now > here.stop_at:
            found[name] = {"skipped": f"{now - begun:.0f} s are gone, the limit is {BUDGET_S} s"}
            continue
        found[name] = guarded(lambda section=section, here=here: section(here))
        found[name] |= {"left_out": here.left_out} if here.left_out else {}
        failed = ", FAILED" * ("error" in found[name])
        print(f"{name}: {found[name]['took_s']:.1f} s{failed}", file=sys.stderr)
    return found


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
    checks = found.get("correctness", {}).get("result", {})
    right = sum(bool(row["ok"]) for row in checks.values())
    judge("correct", right / len(checks) if checks and not is_smoke else None, 1.0)
    rows.extend(ahead(found.get("peers", {}).get("result", {}), is_smoke=is_smoke))
    return rows


def ahead(peers: dict[str, Any], *, is_smoke: bool) -> list[dict[str, Any]]:
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
