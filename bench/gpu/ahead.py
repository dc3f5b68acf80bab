"""Section: compiles what the others launch, in processes beside one another. Triton keeps it on disk.

One after the other they would take most of the time that there is. So each process makes its share of the
very calls of the sections, which then find their kernels. What fails here, or is not done in time, they
compile themselves.

    python -m bench.gpu.ahead cuda 3 16    jobs 3, 19, 35, ...; a line of JSON for each
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from bench.gpu import correct, engine_paths, speed
from bench.gpu.batches import Batch, Shape, small
from bench.gpu.here import Here

ROOT = Path(__file__).parents[2]
ON_A_CPU = 1  # processes, and jobs: enough to show that it works
Job = Callable[[], Any]


def jobs(device: torch.device) -> dict[str, Job]:
    """What has kernels of its own, the most wanted first."""
    is_gpu = device.type == "cuda"
    found: dict[str, Job] = {
        f"correctness: {name}": partial(answer, case, device)
        for name, case in correct.cases(is_gpu=is_gpu).items()
    }
    found |= {f"engine: {name}": partial(path, device) for name, path in engine_paths.PATHS.items()}
    found |= {f"speed: {name}": partial(attend, shape, device) for name, shape in shapes().items()}
    found |= {f"launches: {what}": partial(sweep, launch, device) for what, launch in speed.LAUNCHES.items()}
    return found


def shapes() -> dict[str, Shape]:
    """Of the sections that measure attention."""
    shorts = {f"{name}, prefill": replace(shape, splits=False) for name, shape in speed.SHORTS.items()}
    blocks = {f"blocks of {size}": replace(speed.MEDIUM, block_size=size) for size in speed.BLOCK_SIZES}
    contiguous = {"contiguous": replace(speed.MEDIUM, contiguous=True)}
    return {**speed.DECODES, **speed.SHORTS, **shorts, **blocks, **contiguous, **speed.PREFILLS}


def answer(case: correct.Case, device: torch.device) -> None:
    for question in correct.asked(case, device):
        question.answer()


def attend(shape: Shape, device: torch.device) -> None:
    Batch(small(shape, device), device).run()


def sweep(launch: tuple[int, int, int], device: torch.device) -> None:
    with speed.launched(launch):
        attend(speed.LONG, device)


def ahead(here: Here) -> dict[str, Any]:
    """How many jobs are done, and which failed. Processes that are not done in time are killed."""
    count = min(os.cpu_count() or 1, 16) if here.is_gpu else ON_A_CPU
    command = [sys.executable, "-m", "bench.gpu.ahead", here.device.type]
    pipe = subprocess.PIPE
    processes = [
        subprocess.Popen([*command, str(place), str(count)], cwd=ROOT, stdout=pipe, stderr=pipe, text=True)
        for place in range(count)
    ]
    lines: list[str] = []
    failed: dict[str, str] = {}
    for place, process in enumerate(processes):
        try:
            output, errors = process.communicate(timeout=here.left_s)
            if process.returncode:
                failed[f"process {place}"] = f"ended with {process.returncode}: {errors[-500:]}"
        except subprocess.TimeoutExpired:
            process.kill()
            output, _ = process.communicate()
            here.left_out.append(f"the rest of process {place}")
        lines += output.splitlines()
    done = [json.loads(line) for line in lines if line.startswith("{")]
    failed |= {row["job"]: row["error"] for row in done if row["error"]}
    return {"processes": count, "jobs": len(done), "failed": failed}


def work(device: torch.device, place: int, count: int) -> None:
    """Every `count`-th job from `place` on, each told when it is done."""
    names = jobs(device)
    share = list(names.items())[place::count]
    for name, job in share if device.type == "cuda" else share[:ON_A_CPU]:
        error = None
        try:
            job()
        except Exception as failure:  # noqa: BLE001  (whoever needs it will meet it again, and says so)
            error = f"{type(failure).__name__}: {failure}"[:300]
        print(json.dumps({"job": name, "error": error}), flush=True)


if __name__ == "__main__":
    work(torch.device(sys.argv[1]), *map(int, sys.argv[2:]))
