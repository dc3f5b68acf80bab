"""The systems that are compared, and how one of them is run: in a process, or an environment, of its own."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
Result = dict[str, Any]  # of a system that ran: see `bench.peers.compare`; else `skipped` with the reason


@dataclass(frozen=True, slots=True)
class System:
    """What it imports, its script with arguments, and how many requests it gets (None: all)."""

    needs: str
    script: list[str]
    num_requests: int | None = None


def _script(name: str, *arguments: str) -> list[str]:
    return [str(HERE / name), *arguments]


ONE_BY_ONE = "transformers-one-by-one"
SYSTEMS = {
    "pagelab": System("torch", ["-m", "bench.peers.run_pagelab"]),
    ONE_BY_ONE: System("transformers", _script("run_transformers.py", "one-by-one"), 12),
    "transformers-static": System("transformers", _script("run_transformers.py", "static"), 24),
    "transformers-continuous": System("transformers", _script("run_transformers.py", "continuous")),
    "llama.cpp-one-by-one": System("llama_cpp", _script("run_llama_cpp.py", "one-by-one"), 12),
    "llama.cpp-batched": System("llama_cpp", _script("run_llama_cpp.py", "batched")),
    "vllm": System("vllm", _script("run_vllm.py")),
}


def run_system(system: System, python: str, file: Path, *, threads: int, limit_s: int) -> Result:
    """Its result, or `skipped` with the reason."""
    if not _can_import(system.needs, python):
        return {"skipped": f"{system.needs} cannot be imported in its environment"}
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    load = os.getloadavg()[0]
    try:
        done = subprocess.run(
            [python, *system.script, str(file)],
            capture_output=True,
            text=True,
            timeout=limit_s,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"skipped": f"took more than {limit_s} s"}
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        return {"skipped": f"failed: {lines[-1] if lines else f'exit code {done.returncode}'}"}
    return {**parse_result(done.stdout), "load_before": load}


def parse_result(output: str) -> Result:
    """The JSON object in the last line that is one: what libraries print before and after it is theirs."""
    for line in reversed(output.splitlines()):
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict) and "tokens" in found:
            return found
    return {"skipped": "printed no result"}


def python_of(system: System, own: dict[str, str | None]) -> str:
    """The interpreter of its environment: `own` by what is imported, ours where there is none."""
    return own.get(system.needs) or sys.executable


def _can_import(module: str, python: str) -> bool:
    command = [python, "-c", f"import {module}"]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:  # no such interpreter
        return False
