"""How much faster two processes finish a sweep than one: the ratio of their times on the same work.

    python -m bench.sweep [--out FILE] [--rounds N]        # writes bench/results/sweep.json

Rounds of one and of two processes take turns, so that a machine that gets busier counts for both. Starting
the processes is part of it. The work itself, done here without any process, stands beside them: what is more
than that divided by the processes is what sweeping costs.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import orjson

from bench.machine import RESULTS, describe
from sim.sweep import Plan, ProcessPool, open_store, run_sweep, work

FIXED = {"trace": "sharegpt-like", "first": 250, "prefix_cache": "hash"}  # each step by itself: some seconds
GRID = {"rate_scale": [1, 2], "block_size": [8, 16, 32], "preempt": ["recompute", "swap"]}


def plan() -> Plan:
    return Plan.make(FIXED, GRID)


def swept(num_processes: int) -> tuple[float, list[dict[str, Any]]]:
    """Wall seconds of the whole sweep, and its rows."""
    with tempfile.TemporaryDirectory() as folder, open_store(Path(folder), plan()) as store:
        start = time.perf_counter()
        run_sweep(store, lambda: ProcessPool(num_processes))
        return time.perf_counter() - start, store.results()


def alone() -> float:
    """Seconds of the work itself."""
    start = time.perf_counter()
    for configuration in plan().configurations:
        work(configuration)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.sweep")
    parser.add_argument("--out", type=Path, default=RESULTS / "sweep.json")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    seconds: dict[int, list[float]] = {1: [], 2: []}
    rows: list[list[dict[str, Any]]] = []
    for _ in range(options.rounds):
        for num_processes, times in seconds.items():
            taken, results = swept(num_processes)
            times.append(taken)
            rows.append(results)
    ratio = median(seconds[1]) / median(seconds[2])
    document = {
        "command": "python -m bench.sweep",
        "machine": {**describe("numpy"), "load_average": os.getloadavg()},
        "configurations": len(plan().configurations),
        "work_s": alone(),
        "seconds": {str(num): times for num, times in seconds.items()},
        "speedup_of_two": ratio,
        "same_rows": all(one == rows[0] for one in rows),
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_bytes(orjson.dumps(document, option=orjson.OPT_INDENT_2))
    print(
        f"{len(plan().configurations)} configurations: 1 process {median(seconds[1]):.1f} s, 2 processes "
        f"{median(seconds[2]):.1f} s: {ratio:.2f} times as fast"
    )


if __name__ == "__main__":
    main()
