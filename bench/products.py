"""Products with all matrices of a model, three ways: as a step of so many tokens multiplies them.

    python -m bench.products                        # SmolLM2-135M's shapes, batches of 1 to 256
    python -m bench.products --rows 4,16 --threads 1 --out -

linear   torch's, which rearranges the matrix in every call
onednn   a matrix laid out once by torch's oneDNN
panels   ours (`engine.packed`)

Each goes through the matrices of all layers, so that none is in the cache when it is needed. The three take
turns, so that what else the machine does hits all of them; the best round of each counts.
"""

import argparse
import json
import os
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from bench.machine import RESULTS, describe, let_threads_sleep
from engine.packed import PackedMatrix
from sim.models import get_model

Product = Callable[[Tensor], Tensor]


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.products", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--rows", default="1,4,8,16,32,64,256", help="batch sizes")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument(
        "--out", default=str(RESULTS / "products.json"), help="result file; - is standard output"
    )
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    steps: list[dict[str, Any]] = []
    for rows in (int(text) for text in options.rows.split(",")):
        steps.append({"rows": rows, **time_step(options.model, rows, options.rounds)})
        print(" ".join(f"{name} {value}" for name, value in steps[-1].items()), flush=True)
    command = f"python -m bench.products --model {options.model} --rows {options.rows}"
    machine = {**describe("torch", "numba"), "threads": options.threads, "load_at_end": os.getloadavg()}
    text = json.dumps({"command": command, "machine": machine, "clock": "measured", "steps": steps}, indent=2)
    if options.out == "-":
        print(text)
    else:
        Path(options.out).write_text(text + "\n", encoding="utf-8")


@torch.inference_mode()
def time_step(model: str, rows: int, rounds: int) -> dict[str, float]:
    """Milliseconds for the products of one step of `rows` tokens, by way."""
    total = dict.fromkeys(("linear", "onednn", "panels"), 0.0)
    for count, num_out, num_in in shapes(model):
        matrices = [torch.randn(num_out, num_in) for _ in range(count)]
        x = torch.randn(rows, num_in)
        ways = [ways_of(matrix) for matrix in matrices]
        best = dict.fromkeys(total, float("inf"))
        for _ in range(rounds):
            for name in total:
                let_threads_sleep()
                ways[0][name](x)
                start = perf_counter()
                for products in ways:
                    products[name](x)
                best[name] = min(best[name], perf_counter() - start)
        for name in total:
            total[name] += 1000 * best[name]
    return {name: round(value, 2) for name, value in total.items()}


def shapes(model: str) -> list[tuple[int, int, int]]:
    """How many matrices [out, in] of each shape a step multiplies with: (count, out, in)."""
    spec = get_model(model)
    query, key = spec.num_heads * spec.head_dim, spec.num_kv_heads * spec.head_dim
    return [
        (spec.num_layers, query + 2 * key, spec.hidden),
        (spec.num_layers, spec.hidden, query),
        (spec.num_layers, 2 * spec.intermediate, spec.hidden),
        (spec.num_layers, spec.hidden, spec.intermediate),
        (1, spec.vocab, spec.hidden),
    ]


def ways_of(matrix: Tensor) -> dict[str, Product]:
    """The same product, three ways."""
    packed, panels = torch.ops.mkldnn._reorder_linear_weight(matrix, 32), PackedMatrix(matrix)
    return {
        "linear": lambda x: torch.nn.functional.linear(x, matrix),
        "onednn": lambda x: torch.ops.mkldnn._linear_pointwise(x, packed, None, "none", [], ""),
        "panels": lambda x: panels(x, None),
    }


if __name__ == "__main__":
    main()
