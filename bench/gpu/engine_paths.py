"""Section: what the engine does on a GPU alone, each with a small model and the tokens that must come out.

    graphs   decode steps are recorded and replayed
    swap     preempted requests leave through pinned host memory, on a stream of their own
    max      ranges in an arena, read by the contiguous kernels
    native   tensors of each request's own; the framework counts its memory

Weights are the same bits everywhere and float32, so that one run's tokens are the other's.
"""

from collections.abc import Callable
from typing import Any

import torch

from bench.gpu.here import Here
from engine import MeasuredRun, measure
from engine.agreement import agreement
from sim import Config, simulate
from sim.trace.builtin import BUILTINS

TRACE = BUILTINS["demo"].make(0).first(12)
SWAP = {"pool_tokens": 512, "preempt": "swap", "swap_blocks": 32}
MAX = {"allocator": "max", "pool_tokens": 1600, "placement": "first-fit"}
NATIVE_CLASSES = ("live", "reserved", "internal")  # that tensors of one's own share with the schedule
IsOver = Callable[[], bool]
Outcome = dict[str, Any]


class OutOfTime(Exception):
    """A run was ended before its last request."""


def never() -> bool:
    return False


def configured(**dials: Any) -> Config:
    return Config(
        **{
            "model": "tiny",
            "kv_dtype": "fp32",
            "max_len": 512,
            "pool_tokens": 8192,
            "timing": "unit",
            **dials,
        }
    )


def ran(config: Config, device: torch.device, is_over: IsOver, **options: Any) -> MeasuredRun:
    """The trace under `config`, on the modelled clock, so that its schedule is the simulated one."""
    run = measure(TRACE, config, device=device.type, clock="modelled", is_over=is_over, **options)
    if run.is_stopped:
        raise OutOfTime(f"stopped in step {run.num_steps}")
    return run


def roomy(device: torch.device, is_over: IsOver) -> MeasuredRun:
    """Kernel by kernel, and nobody is preempted."""
    return ran(configured(), device, is_over, graphs="off")


def graphs(device: torch.device, is_over: IsOver = never) -> Outcome:
    """Recorded steps against plain ones; on a CPU none is recorded."""
    run = ran(configured(), device, is_over, graphs="on" if device.type == "cuda" else "off")
    count = run.meta["engine"]["cuda_graphs"]
    return judged(run, roomy(device, is_over), recorded=count > 0 or device.type == "cpu") | {"graphs": count}


def swap(device: torch.device, is_over: IsOver = never) -> Outcome:
    """A pool that is too small, with room for its blocks on the host."""
    config = configured(**SWAP)
    run = ran(config, device, is_over)
    verdict = agreement(simulate(TRACE, config), run)
    checks = {"swapped": run.traffic.swapped_in_blocks > 0, "ledger": verdict["first_difference"] is None}
    facts = {"swapped_blocks": run.traffic.swapped_blocks, "agreement": verdict}
    return judged(run, roomy(device, is_over), **checks) | facts


def longest(device: torch.device, is_over: IsOver = never) -> Outcome:
    """A range of the maximum length for each request."""
    config = configured(**MAX)
    run = ran(config, device, is_over)
    verdict = agreement(simulate(TRACE, config), run)
    checks = {"ledger": verdict["first_difference"] is None}
    return judged(run, roomy(device, is_over), **checks) | {"agreement": verdict}


def native(device: torch.device, is_over: IsOver = never) -> Outcome:
    """The same schedule without a pool."""
    config = configured(**MAX)
    run, model = ran(config, device, is_over, native=True), simulate(TRACE, config)
    memory = run.meta["memory"]
    columns = [(run.series.column(name), model.series.column(name)) for name in NATIVE_CLASSES]
    checks = {
        "ledger": all(ours.tolist() == theirs.tolist() for ours, theirs in columns),
        "faultless": all(observation.faults.are_none for observation in run.observations),
        "counted": is_counted(memory, device),
    }
    return judged(run, roomy(device, is_over), **checks) | {"memory": memory}


def is_counted(memory: dict[str, Any], device: torch.device) -> bool:
    """Whether the framework's numbers are there, and hold what the tensors take."""
    native, end = memory["native"], memory["end"]
    if device.type == "cpu":
        return native["counted_by"] == "resident" and end["resident_bytes"] > native["tensor_bytes"] > 0
    peak, reserved = end["allocated_peak_bytes"], end["reserved_bytes"]
    is_held = peak >= native["tensor_bytes"] > 0 and reserved >= end["allocated_bytes"]
    return is_held and native["counted_by"] == "reserved"


def judged(run: MeasuredRun, plain: MeasuredRun, **checks: bool) -> Outcome:
    """Whether the tokens are those of the plain run and all else is as it should be."""
    checks = {"tokens": run.tokens == plain.tokens, **checks}
    wrong = [name for name, is_right in checks.items() if not is_right]
    facts = {"steps": run.num_steps, "preemptions": run.num_preemptions, "min_margin": run.min_margin}
    return {"ok": not wrong, "wrong": wrong, **facts}


PATHS: dict[str, Callable[..., Outcome]] = {
    "graphs": graphs,
    "swap": swap,
    "max": longest,
    "native": native,
}


def engine_paths(here: Here) -> dict[str, Any]:
    """Name -> whether it is right. One for which the time did not suffice is named."""
    found: dict[str, Any] = {}
    for name, path in here.cases(PATHS, len(PATHS)):
        try:
            found[name] = path(here.device, here.is_over)
        except OutOfTime as stop:
            here.left_out.append(f"{name}, {stop}")
        except Exception as error:  # noqa: BLE001  (a fault of the engine is the finding, and the rest goes on)
            found[name] = {"ok": False, "wrong": [f"{type(error).__name__}: {error}"[:1000]]}
    return found
