"""The CPU backend: decode's share of this machine's read bandwidth, prefill against torch's SDPA.

    python -m bench.cpu_attention           -> bench/results/cpu_attention.json

A share or a ratio is the median of several rounds, each of two calls right after one another: a machine that
others use too changes its pace within a second. Seconds and rates are medians too. The load average at the
beginning and the end is written beside them.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention

from bench.gpu import batches
from bench.gpu.batches import Batch, Shape
from bench.machine import RESULTS, let_threads_sleep
from bench.machine import describe as describe_machine
from engine.attention.cpu_backend import share_out
from engine.attention.cpu_vectors import LANES
from engine.team import torch_gives_way

TARGET = 0.60
DECODES = {
    f"{heads}/8 heads, {name}": Shape(
        num_seqs=8, seq_len=4096 if dtype == torch.float32 else 8192, num_heads=heads, dtype=torch.float32,
        cache_dtype=dtype,
    )
    for heads in (8, 32)
    for name, dtype in (
        ("fp32", torch.float32), ("bf16", torch.bfloat16), ("fp16", torch.float16), ("int8", torch.int8),
        ("fp8", torch.float8_e4m3fn),
    )
}  # fmt: skip
DECODES |= {"32/8 heads, fp32, one sequence": Shape(num_seqs=1, seq_len=32768, dtype=torch.float32)}
PREFILLS = {
    "prompt of 1024": Shape(num_seqs=1, seq_len=1024, query_len=1024, dtype=torch.float32),
    "4 prompts of 256": Shape(num_seqs=4, seq_len=256, query_len=256, dtype=torch.float32),
}
Call = Callable[[], Any]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--tiny", action="store_true", help="small sizes: shows that it runs")
    parser.add_argument("--out", default=str(RESULTS / "cpu_attention.json"))
    options = parser.parse_args(arguments)
    batches.BACKEND = "cpu"
    load = [os.getloadavg()[0]]
    document: dict[str, Any] = {
        "machine": describe_machine("torch", "numba", "numpy")
        | {"threads": torch.get_num_threads(), "lanes": LANES},
        "command": "python -m bench.cpu_attention",
        "rounds": options.rounds,
        **decode(options.rounds, is_tiny=options.tiny),
        "prefill": prefill(options.rounds, is_tiny=options.tiny),
    }
    document["load_average"] = [*load, os.getloadavg()[0]]
    Path(options.out).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(document, indent=1))


def decode(num_rounds: int, *, is_tiny: bool) -> dict[str, Any]:
    """Bytes a second: what torch sums, on as many threads, and of each shape the keys and values read."""
    pieces = torch.ones(64, 2**14 if is_tiny else 2**20)

    def read() -> None:
        share_out(lambda first, last: pieces[first:last].sum(), 64, pieces.numel())

    rows, peaks = {}, []
    for name, usual in DECODES.items():
        shape = shrunk(usual) if is_tiny else usual
        with torch_gives_way(torch.get_num_threads()):
            reading, took = in_turns(read, Batch(shape, torch.device("cpu")).run, num_rounds)
        share = shape.kv_bytes / pieces.nbytes * median_ratio(reading, took)
        peaks += [pieces.nbytes / seconds for seconds in reading]
        rows[name] = {"kv_bytes": shape.kv_bytes, "seconds": median(took)}
        rows[name] |= {"bytes_per_s": shape.kv_bytes / median(took)}
        rows[name] |= {"share_of_read": share, "met": share >= TARGET}
    return {"read_bytes_per_s": median(peaks), "target_share": TARGET, "decode": rows}


def prefill(num_rounds: int, *, is_tiny: bool) -> dict[str, Any]:
    """Seconds of a causal prefill by pages, and of SDPA on the same numbers in one piece."""
    rows = {}
    for name, usual in PREFILLS.items():
        batch = Batch(shrunk(usual) if is_tiny else usual, torch.device("cpu"))
        shape = batch.shape
        query, keys, values = (
            tensor.view(shape.num_seqs, -1, *tensor.shape[1:]).transpose(1, 2)
            for tensor in (batch.query, batch.keys, batch.values)
        )

        def sdpa(query: Any = query, keys: Any = keys, values: Any = values) -> Any:
            return scaled_dot_product_attention(query, keys, values, is_causal=True, enable_gqa=True)

        ours, theirs = in_turns(batch.run, sdpa, num_rounds)
        rows[name] = {"seconds": median(ours), "flop_per_s": shape.flops / median(ours)}
        rows[name] |= {"sdpa_seconds": median(theirs), "times_sdpa": median_ratio(ours, theirs)}
    return rows


def shrunk(shape: Shape) -> Shape:
    return replace(shape, seq_len=64, query_len=min(shape.query_len, 64))


def in_turns(one: Call, other: Call, num_rounds: int) -> tuple[list[float], list[float]]:
    """Seconds of both in `num_rounds` rounds, every time right after another call of the same."""
    seconds: tuple[list[float], list[float]] = ([], [])
    for _ in range(num_rounds):
        for call, took in zip((one, other), seconds, strict=True):
            let_threads_sleep()
            call()
            start = time.perf_counter()
            call()
            took.append(time.perf_counter() - start)
    return seconds


def median_ratio(one: list[float], other: list[float]) -> float:
    return median(a / b for a, b in zip(one, other, strict=True))


if __name__ == "__main__":
    main()
