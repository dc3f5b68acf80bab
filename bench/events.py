"""How fast `--events` writes: events per second of a whole simulation whose log is streamed to a file.

    python -m bench.events            # writes bench/results/events.json

Beside it, in the same process, what json.dumps takes for one constant event: the yardstick that makes the
figure comparable between machines. Seconds are processor time of this process, so that a shared machine
counts alike; wall-clock seconds are given too. The best of twelve rounds is reported.
"""

import json
import os
import platform
import tempfile
import time
import tracemalloc
from pathlib import Path
from random import Random

from sim import Config, Request, Trace, simulate
from sim.stream import stream_to

RESULTS = Path(__file__).parent / "results" / "events.json"
ROUNDS = 12
EVENT = {
    "kind": "decode", "step": 812, "time": 41.17325, "request": "r4711", "stored": 633, "emitted": 122,
    "why": "emits token 122",
}  # fmt: skip


def fixed_lengths(num_requests: int) -> Trace:
    """Requests of 512/256 tokens, 1000 a second (issue 3's trace, the first of its requests)."""
    return Trace("512/256", tuple(_request(k, k / 1000, 512, 256) for k in range(num_requests)))


def spread_lengths(num_requests: int) -> Trace:
    """Somebody ends in almost every step."""
    random = Random(0)
    rows = [(random.randint(16, 1000), random.randint(1, 512)) for _ in range(num_requests)]
    return Trace("spread", tuple(_request(k, k / 1000, *row) for k, row in enumerate(rows)))


def _request(index: int, arrival_s: float, prompt: int, output: int) -> Request:
    return Request(id=f"r{index}", arrival_s=arrival_s, prompt=prompt, output=output, max_tokens=output)


def yardstick(count: int = 100_000) -> float:
    """Seconds that json.dumps takes for one event."""
    start = time.process_time()
    for _ in range(count):
        json.dumps(EVENT)
    return (time.process_time() - start) / count


def measure(trace: Trace, config: Config) -> dict[str, float]:
    """One run with a streamed log."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.jsonl"
        cpu, wall = time.process_time(), time.perf_counter()
        with stream_to(path) as log:
            simulate(trace, config, log=log)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        json_s = yardstick()
        return {
            "events": log.num_events,
            "bytes": path.stat().st_size,
            "cpu_s": cpu,
            "wall_s": wall,
            "events_per_cpu_s": log.num_events / cpu,
            "events_per_wall_s": log.num_events / wall,
            "json_dumps_s": json_s,
            "times_json_dumps": cpu / log.num_events / json_s,
        }


def held_in_memory(trace: Trace, config: Config) -> int:
    """Peak bytes that the log adds: a streamed run against one without a log."""
    peaks: list[int] = []
    for streamed in (False, True):
        tracemalloc.start()
        with tempfile.TemporaryDirectory() as folder:
            if streamed:
                with stream_to(Path(folder) / "events.jsonl") as log:
                    simulate(trace, config, log=log)
            else:
                simulate(trace, config, record=False, step_by_step=True)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    return peaks[1] - peaks[0]


def main() -> None:
    config = Config(pool_blocks=7424, model="llama-2-13b", hardware="a100-80gb")
    results = {}
    for trace in (fixed_lengths(1500), spread_lengths(1500)):
        rounds = [measure(trace, config) for _ in range(ROUNDS)]
        results[trace.name] = min(rounds, key=lambda one: one["cpu_s"])
        print(trace.name, *(f"{key} {value:,.6g}" for key, value in results[trace.name].items()), sep="\n  ")
    small = fixed_lengths(300)
    document = {
        "command": "python -m bench.events",
        "machine": {"python": platform.python_version(), "cpus": os.cpu_count(), "load": os.getloadavg()},
        "config": {"pool_blocks": 7424, "block_size": 16, "max_seqs": 256},
        "runs": results,
        "log_peak_bytes": held_in_memory(small, config),
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
