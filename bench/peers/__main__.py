"""What people would use instead: the same weights, requests and machine, one system after another.

    pagelab model get smollm2
    python -m bench.peers --python HF/bin/python --llama-python LLAMA/bin/python --vllm-python VLLM/bin/python
    python -m bench.peers --requests 8 --only pagelab,transformers-one-by-one --out -

Each system runs in a process, and if wanted in an environment, of its own; one that is not installed is
skipped, and the reason is kept. 50 requests come at once, if `--requests` says nothing else. The slow ones
get the first 12 or 24 of them, for a rate needs no more; `--whole` gives all to all, and takes twice as
long. Tokens are compared with those of transformers.
"""

import argparse
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from bench.machine import RESULTS, describe
from bench.peers.compare import MIB, finish, ratios, summary
from bench.peers.gguf import write_float32
from bench.peers.systems import SYSTEMS, Result, python_of, run_system
from bench.peers.work import Work, draw_work, write_first, write_work
from engine.checkpoint.named import need_model
from sim.models import get_model

LIMITS = {"block_size": 16, "pool_slots": 8192, "max_seqs": 32, "max_batch_tokens": 2048}


def main() -> None:
    options = parse()
    work = draw_work(options.model, options.requests, options.seed)
    limits = {**LIMITS, "threads": options.threads}
    limits["kv_bytes_per_slot"] = get_model(options.model).kv_bytes_per_token("fp32")
    results: dict[str, Result] = {}
    own = {"transformers": options.python, "llama_cpp": options.llama_python, "vllm": options.vllm_python}
    with tempfile.TemporaryDirectory() as name:
        file = write_work(work, options.model, Path(name), limits=limits)
        add_gguf(file, need_model(options.model), Path(name), wanted=options.only)
        for one in options.only:
            system = SYSTEMS[one]
            theirs = file if options.whole else write_first(file, system.num_requests)
            python = python_of(system, own)
            results[one] = run_system(system, python, theirs, threads=options.threads, limit_s=options.limit)
            print(sentence(one, results[one]), flush=True)
    finished = finish(results, work)
    print(summary(finished))
    write(document(finished, work, options, limits), options.out)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.peers", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--requests", type=int, default=50)
    parser.add_argument("--whole", action="store_true", help="all requests for the slow systems too")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--python", default=None, help="interpreter of transformers' environment")
    parser.add_argument("--llama-python", default=None, help="interpreter of llama-cpp-python's (--python)")
    parser.add_argument("--vllm-python", default=None, help="interpreter of vLLM's (--python)")
    parser.add_argument("--only", default=",".join(SYSTEMS), help="systems, in the order in which they run")
    parser.add_argument("--limit", type=int, default=900, help="seconds for one system")
    parser.add_argument(
        "--out", default=str(RESULTS / "peers.json"), help="result file; - is standard output"
    )
    options = parser.parse_args()
    options.llama_python = options.llama_python or options.python
    options.vllm_python = options.vllm_python or options.python
    options.only = options.only.split(",")
    unknown = [system for system in options.only if system not in SYSTEMS]
    if unknown:
        parser.error(f"unknown system {unknown[0]!r}: known are {', '.join(SYSTEMS)}")
    return options


def add_gguf(file: Path, source: Path, folder: Path, *, wanted: list[str]) -> None:
    """Tells where the float32 GGUF is, if somebody wants it and the model came as one."""
    if source.suffix == ".gguf" and any(system.startswith("llama.cpp") for system in wanted):
        write_float32(source, folder / "float32.gguf")
        work = {**json.loads(file.read_text(encoding="utf-8")), "gguf": str(folder / "float32.gguf")}
        file.write_text(json.dumps(work), encoding="utf-8")


def document(
    finished: dict[str, Result], work: Work, options: argparse.Namespace, limits: dict[str, int]
) -> dict[str, Any]:
    """The result file."""
    return {
        "command": f"python -m bench.peers --requests {options.requests} --seed {options.seed}"
        + " --whole" * options.whole,
        "machine": {**describe("torch"), "threads": options.threads, "load_at_end": os.getloadavg()},
        "work": {
            "model": options.model,
            "requests": options.requests,
            "prompt_tokens": work.num_prompt_tokens,
            "output_tokens": work.num_output_tokens,
        },
        "limits": limits,
        "clock": "measured",
        "pagelab_over": ratios(finished),
        "systems": finished,
    }


def write(content: dict[str, Any], out: str) -> None:
    """To the file, or to standard output."""
    text = json.dumps(content, indent=2) + "\n"
    if out == "-":
        print(text)
    else:
        Path(out).write_text(text, encoding="utf-8")


def sentence(system: str, result: Result) -> str:
    """One line for people."""
    if "skipped" in result:
        return f"{system:<26} skipped: {result['skipped']}"
    rate = sum(map(len, result["tokens"])) / result["seconds"]
    peak = result["peak_resident_bytes"] / MIB
    return f"{system:<26} {result['seconds']:8.1f} s {rate:8.1f} tokens/s {peak:8.0f} MiB at most"


if __name__ == "__main__":
    main()
