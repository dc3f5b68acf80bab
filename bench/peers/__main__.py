"""What people would use instead: the same weights, requests and machine, one system after another.

    pagelab model get smollm2
    python -m bench.peers --python PEERS/bin/python      # an environment with transformers, llama-cpp-python
    python -m bench.peers --requests 8 --only pagelab,transformers-one-by-one --out -

Each system runs in a process of its own; one that is not installed is skipped, and the reason is kept. Tokens
are compared with those of transformers one by one. Without `--requests`, 50 requests come at once.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.machine import RESULTS, describe
from bench.peers.gguf import write_float32
from bench.peers.work import Work, draw_work, write_work
from engine.checkpoint.named import need_model
from sim.models import get_model

HERE = Path(__file__).parent
REFERENCE = "transformers-one-by-one"
SYSTEMS: dict[str, tuple[str, list[str]]] = {  # name -> what it needs, and its script with arguments
    "pagelab": ("torch", ["-m", "bench.peers.run_pagelab"]),
    REFERENCE: ("transformers", [str(HERE / "run_transformers.py"), "one-by-one"]),
    "transformers-static": ("transformers", [str(HERE / "run_transformers.py"), "static"]),
    "transformers-continuous": ("transformers", [str(HERE / "run_transformers.py"), "continuous"]),
    "llama.cpp-one-by-one": ("llama_cpp", [str(HERE / "run_llama_cpp.py"), "one-by-one"]),
    "llama.cpp-batched": ("llama_cpp", [str(HERE / "run_llama_cpp.py"), "batched"]),
    "vllm": ("vllm", [str(HERE / "run_vllm.py")]),
}
LIMITS = {"block_size": 16, "pool_slots": 8192, "max_seqs": 32, "max_batch_tokens": 2048}


def main() -> None:
    options = parse()
    work = draw_work(options.model, options.requests, options.seed)
    limits = {**LIMITS, "threads": options.threads}
    limits["kv_bytes_per_slot"] = get_model(options.model).kv_bytes_per_token("fp32")
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        file = write_work(work, options.model, Path(name), limits=limits)
        add_gguf(file, need_model(options.model), Path(name), wanted=options.only)
        for system in options.only:
            results[system] = run_system(system, file, options)
            print(sentence(system, results[system], work), flush=True)
    document = make_document(results, work, options, limits)
    text = json.dumps(document, indent=2) + "\n"
    if options.out == "-":
        print(text)
    else:
        Path(options.out).write_text(text, encoding="utf-8")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.peers", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--requests", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--python", default=sys.executable, help="interpreter of the peers' environment")
    parser.add_argument("--vllm-python", default=None, help="interpreter of vLLM's, if it has its own")
    parser.add_argument("--only", default=",".join(SYSTEMS), help="systems, in the order in which they run")
    parser.add_argument("--limit", type=int, default=1800, help="seconds for one system")
    parser.add_argument(
        "--out", default=str(RESULTS / "peers.json"), help="result file; - is standard output"
    )
    options = parser.parse_args()
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


def run_system(system: str, file: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Its result, or `skipped` with the reason."""
    needs, script = SYSTEMS[system]
    python = sys.executable if system == "pagelab" else options.python
    if system == "vllm" and options.vllm_python:
        python = options.vllm_python
    if subprocess.run([python, "-c", f"import {needs}"], capture_output=True, check=False).returncode:
        return {"skipped": f"{needs} cannot be imported in its environment"}
    environment = {**os.environ, "OMP_NUM_THREADS": str(options.threads)}
    load = os.getloadavg()[0]
    try:
        done = subprocess.run(
            [python, *script, str(file)],
            capture_output=True,
            text=True,
            timeout=options.limit,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"skipped": f"took more than {options.limit} s"}
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        return {"skipped": f"failed: {lines[-1] if lines else f'exit code {done.returncode}'}"}
    return {**json.loads(done.stdout.strip().splitlines()[-1]), "load_before": load}


def make_document(
    results: dict[str, Any], work: Work, options: argparse.Namespace, limits: dict[str, int]
) -> dict[str, Any]:
    """The result file: ratios beside seconds, and how many requests got the reference's tokens."""
    reference = results.get(REFERENCE, {})
    for result in results.values():
        tokens = result.pop("tokens", None) if result is not reference else result.get("tokens")
        if tokens is None:
            continue
        result["tokens_per_s"] = work.num_output_tokens / result["seconds"]
        if "tokens" in reference:
            result["times_one_by_one"] = reference["seconds"] / result["seconds"]
            pairs = zip(tokens, reference["tokens"], strict=True)
            result["requests_with_equal_tokens"] = sum(ours == theirs for ours, theirs in pairs)
    reference.pop("tokens", None)
    return {
        "command": f"python -m bench.peers --requests {options.requests} --seed {options.seed}",
        "machine": {**describe("torch"), "threads": options.threads, "load_at_end": os.getloadavg()},
        "work": {
            "model": options.model,
            "requests": options.requests,
            "prompt_tokens": work.num_prompt_tokens,
            "output_tokens": work.num_output_tokens,
        },
        "limits": limits,
        "clock": "measured",
        "systems": results,
    }


def sentence(system: str, result: dict[str, Any], work: Work) -> str:
    """One line for people."""
    if "skipped" in result:
        return f"{system:<26} skipped: {result['skipped']}"
    rate = work.num_output_tokens / result["seconds"]
    peak = result["peak_resident_bytes"] / 2**20
    return f"{system:<26} {result['seconds']:8.1f} s {rate:8.1f} tokens/s {peak:8.0f} MiB at most"


if __name__ == "__main__":
    main()
