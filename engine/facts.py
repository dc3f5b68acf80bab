"""What the engine really has, as plain values: the simulator takes its pool from here."""

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import psutil
import torch

from engine.checkpoint.named import model_path
from engine.graphs import DecodeGraphs
from engine.model import LlamaModel
from engine.physical import Pool
from engine.team import team_size
from sim.alloc import BLOCKED
from sim.config import Config

CUDA_STATS = {  # report key -> key of torch.cuda.memory_stats()
    "allocated_bytes": "allocated_bytes.all.current",
    "allocated_peak_bytes": "allocated_bytes.all.peak",
    "reserved_bytes": "reserved_bytes.all.current",
    "inactive_split_bytes": "inactive_split_bytes.all.current",
}


def engine_facts(
    config: Config, model: LlamaModel, pool: Pool, *, backend: str, graphs: DecodeGraphs | None = None
) -> dict[str, Any]:
    """Pool, dtypes, device and versions of one run. Block counts are None where there are no blocks."""
    device, is_paged = model.device, config.allocator in BLOCKED
    path = model_path(config.model)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor()
    return {
        "model": config.model,
        "num_slots": pool.num_slots,
        "num_blocks": pool.num_slots // config.block_size if is_paged else None,
        "block_size": config.block_size if is_paged else None,
        "num_host_blocks": config.num_host_blocks if is_paged else None,
        "kv_dtype": config.kv_dtype,
        "kv_bytes_per_token": pool.num_bytes // pool.num_slots,
        "kv_pool_bytes": pool.num_bytes,
        "weights": path.name if path else "random",  # where it lies is nobody else's business
        "weights_dtype": str(model.dtype).removeprefix("torch."),
        "weights_bytes": model.num_weight_bytes,
        "backend": backend,
        "cuda_graphs": graphs.num_recorded if graphs else 0,
        "device": device.type,
        "device_name": name or platform.machine(),
        "threads": team_size(),
        "torch": torch.__version__,
        "triton": installed_version("triton"),
        "python": platform.python_version(),
    }


def memory_now(device: torch.device) -> dict[str, int]:
    """Bytes as the framework (on a GPU) or the system (on a CPU) counts them."""
    if device.type == "cuda":
        stats = torch.cuda.memory_stats(device)
        return {name: int(stats.get(key, 0)) for name, key in CUDA_STATS.items()}
    return {"resident_bytes": psutil.Process().memory_info().rss}


def reset_peak(device: torch.device) -> None:
    """Lets `allocated_peak_bytes` count from now on."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def available_bytes(device: torch.device) -> int:
    """Memory that new tensors could take."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return psutil.virtual_memory().available


def installed_version(package: str) -> str | None:
    """The version of an optional package, or None where it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
