"""Small sweeps, and processes to watch."""

from typing import Any

import psutil

from sim.sweep import Plan, work

DEMO = {"trace": "demo", "pool_tokens": 4096, "max_len": 512}
SLOW = {"trace": "sharegpt-like", "prefix_cache": "hash"}  # every step by itself: some seconds
HOG = {"trace": "demo", "prefix_cache": "hash", "pool_blocks": 1 << 24}  # free list and counts: about 1 GB


def small_plan() -> Plan:
    return Plan.make(
        DEMO, {"allocator": ["max", "oracle", "paged"], "rate_scale": [1, 2]}, [{"block_size": 0}]
    )


def rows_of(plan: Plan) -> list[dict[str, Any]]:
    """What the rows must be: the work done here, one after the other."""
    return [work(configuration) for configuration in plan.configurations]


def nurseries(root: psutil.Process) -> list[psutil.Process]:
    """Those that work for `root` or its workers."""
    found: list[psutil.Process] = []
    for process in root.children(recursive=True):
        try:
            command = process.cmdline()
        except psutil.NoSuchProcess:
            continue
        parent = process.parent()
        if "sim.sweep.nursery" in command and parent and "sim.sweep.nursery" not in parent.cmdline():
            found.append(process)
    return found
