"""The CPU backend: decode's share of this machine's read bandwidth, prefill against torch's SDPA.

    python -m bench.cpu_attention           -> bench/results/cpu_attention.json

Every figure is the best of several rounds, in which all calls take turns: other processes only slow one down.
The load average at the beginning and the end is written beside them.
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention

from bench.gpu import batches
from bench.gpu.batches import Batch, Shape
from bench.machine import RESULTS, let_threads_sleep
from bench.machine import describe as describe_machine
from engine.attention.cpu_backend import share_out
from engine.team import torch_gives_way

TARGET = 0.60
DECODES = {
    f"{heads}/8 heads, {name}": Shape(
        num_seqs=8, seq_len=4096 if dtype == torch.float32 else 8192, num_heads=heads, dtype=torch.float32,
        cache_dtype=dtype,
    )
    for heads in (8, 32)
    for name, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16), ("fp16", torch.float16))
}  # fmt: skip
DECODES |= {"32/8 heads, fp32, one sequence": Shape(num_seqs=1, seq_len=32768, dtype=torch.float32)}
PREFILLS = {
    "prompt of 1024": Shape(num_seqs=1, seq_len=1024, query_len=1024, dtype=torch.float32),
    "4 prompts of 256": Shape(num_seqs=4, seq_len=256, query_len=256, dtype=torch.float32),
}
Call = Callable[[], Any]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--tiny", action="store_true", help="small sizes: shows that it runs")
    parser.add_argument("--out", default=str(RESULTS / "cpu_attention.json"))
    options = parser.parse_args(arguments)
    batches.BACKEND = "cpu"
    load = [os.getloadavg()[0]]
    document: dict[str, Any] = {
        "machine": describe_machine("torch", "numba", "numpy") | {"threads": torch.get_num_threads()},
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
    calls: list[Call] = [lambda: share_out(lambda first, last: pieces[first:last].sum(), 64, pieces.numel())]
    shapes = {name: shrunk(shape) if is_tiny else shape for name, shape in DECODES.items()}
    made = [Batch(shape, torch.device("cpu")) for shape in shapes.values()]
    with torch_gives_way(torch.get_num_threads()):
        read, *seconds = best(calls + [batch.run for batch in made], num_rounds)
    peak = pieces.nbytes / read
    rows = {}
    for (name, shape), took in zip(shapes.items(), seconds, strict=True):
        rate = shape.kv_bytes / took
        rows[name] = {"kv_bytes": shape.kv_bytes, "seconds": took, "bytes_per_s": rate}
        rows[name] |= {"share_of_read": rate / peak, "met": rate / peak >= TARGET}
    return {"read_bytes_per_s": peak, "target_share": TARGET, "decode": rows}


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

        ours, theirs = best([batch.run, sdpa], num_rounds)
        rows[name] = {"seconds": ours, "flop_per_s": shape.flops / ours, "sdpa_seconds": theirs}
        rows[name] |= {"times_sdpa": ours / theirs}
    return rows


def shrunk(shape: Shape) -> Shape:
    return replace(shape, seq_len=64, query_len=min(shape.query_len, 64))


def best(calls: Sequence[Call], num_rounds: int) -> list[float]:
    """The shortest of `num_rounds` of each, every time right after another of the same."""
    shortest = [float("inf")] * len(calls)
    for _ in range(num_rounds):
        for index, call in enumerate(calls):
            let_threads_sleep()
            call()
            start = time.perf_counter()
            call()
            shortest[index] = min(shortest[index], time.perf_counter() - start)
    return shortest


if __name__ == "__main__":
    main()
