"""From a config to a model and a pool on a device, or to one clear line why that cannot be."""

import os

import torch

from engine.arena import ContiguousArena
from engine.attention.backends import BACKENDS
from engine.checkpoint.named import weights_of
from engine.dropping import Dropping
from engine.facts import available_bytes
from engine.memory_watch import POLICIES
from engine.model import LlamaModel
from engine.native import NativeTensors
from engine.physical import Pool
from engine.pool import PagedPool
from engine.quantized import QUANTIZED
from engine.ranks import ALONE, Ranks
from engine.threads import SMALL_MODEL_BYTES
from sim.alloc import RANGED
from sim.config import Config
from sim.errors import InputError, unknown_name
from sim.horizon import HeavyHitters

KV_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16, **QUANTIZED}


def pick_device(name: str) -> torch.device:
    """`auto` is the GPU where there is one, else the CPU."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name not in ("cpu", "cuda"):
        raise InputError(f"device {name!r}: must be auto, cpu or cuda")
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("device cuda: this machine has no CUDA device that torch can use; use cpu")
    return torch.device(name)


def refuse_backend(backend: str, device: torch.device) -> None:
    """Raises InputError for a backend that is unknown or cannot run on `device`."""
    names = ("auto", *BACKENDS)
    if backend not in names:
        raise unknown_name("backend", backend, names)
    if backend == "cpu" and device.type != "cpu":
        raise InputError(f"backend cpu on device {device.type}: use --device cpu, or backend auto")
    if backend == "triton" and device.type == "cpu" and os.environ.get("TRITON_INTERPRET") != "1":
        raise InputError(
            "backend triton on device cpu: Triton needs a CUDA device, or TRITON_INTERPRET=1 (slow) "
            "before Python starts; use backend cpu"
        )


def model_dtype(config: Config, device: torch.device) -> torch.dtype:
    """On a GPU weights and activations have the cache's dtype, or bf16 if that is quantized.

    On a CPU they are float32, which is faster there and keeps greedy tokens apart from rounding; only the
    cache is narrow.
    """
    if device.type != "cuda":
        return torch.float32
    return torch.bfloat16 if config.kv_dtype in QUANTIZED else KV_DTYPES[config.kv_dtype]


def make_model(config: Config, device: torch.device, ranks: Ranks = ALONE) -> LlamaModel:
    """The model of `config`: its real weights where they are on this machine, else drawn from the seed.

    Of several `ranks` each has its share.
    """
    source, dtype = weights_of(config.model, config.seed), model_dtype(config, device)
    model = LlamaModel(config.spec, config.seed, dtype, device, source=source, ranks=ranks)
    if model.num_weight_bytes >= SMALL_MODEL_BYTES:
        model.pack()  # a smaller one loses more by the longer call than it gains
    return model


def make_pool(config: Config, device: torch.device, *, is_marked: bool = True) -> Pool:
    """The pool of `config`, filled with the sentinel if it `is_marked`: see `engine.sentinel.new_pool`."""
    dtype = KV_DTYPES[config.kv_dtype]
    if config.allocator in RANGED:
        return ContiguousArena(
            config.rank_spec,
            num_slots=config.num_slots,
            max_rows=config.max_seqs,
            dtype=dtype,
            device=device,
            fills_rounding=config.allocator in ("grow", "slab"),
            is_marked=is_marked,
        )
    block_size = config.slots_per_block
    assert block_size is not None
    return PagedPool(
        config.rank_spec,
        num_blocks=config.num_slots // block_size,
        block_size=block_size,
        num_host_blocks=config.num_host_blocks,
        max_rows=config.max_seqs,
        max_len=config.max_len,
        dtype=dtype,
        device=device,
        is_rounded_up=config.allocator == "virtual",
        is_marked=is_marked,
    )


def make_dropping(config: Config, device: torch.device) -> Dropping | None:
    """Who sees which token until when, where `config` drops them one by one."""
    horizon = config.horizon
    if not isinstance(horizon, HeavyHitters):
        return None
    return Dropping(horizon, config.max_seqs, config.max_len, device)


def make_native(config: Config, device: torch.device) -> NativeTensors:
    """Tensors of each sequence's own, on the schedule of `config`. InputError for one that has none."""
    if config.allocator not in POLICIES:
        raise InputError(
            f"allocator {config.allocator} with tensors of each request's own: the schedule of max (tensors "
            "of the maximum length) or grow (by concatenation) is what they follow; use one of these"
        )
    if config.placement == "buddy" or config.compaction != "off":
        raise InputError(
            f"--placement {config.placement}, --compaction {config.compaction} with tensors of each "
            "request's own: the framework places them, and rounds and moves nothing for us; use --placement "
            "first-fit"
        )
    if config.kv_dtype in QUANTIZED:
        raise InputError(
            f"--kv-dtype {config.kv_dtype} with tensors of each request's own: codes and scales are kept in "
            "a pool; use fp16, bf16 or fp32"
        )
    return NativeTensors(
        config.spec,
        num_slots=config.num_slots,
        max_rows=config.max_seqs,
        dtype=KV_DTYPES[config.kv_dtype],
        device=device,
        fills_rounding=config.allocator == "grow",
    )


def refuse_impossible(config: Config, device: torch.device, num_ranks: int = 1) -> None:
    """Raises InputError, naming the remedy, for a config that no engine of `num_ranks` can execute."""
    spec = config.spec
    if spec.name.startswith("opt-"):
        raise InputError(
            f"model {spec.name}: the engine runs the Llama architecture, and OPT has learned positions, "
            "biases and no gated MLP; use --model tiny (any machine) or llama-2-7b (a GPU)"
        )
    if config.keep_recent is not None and config.speculate:
        raise InputError(
            f"--keep-recent {config.keep_recent} with --speculate {config.speculate}: drafts are what a "
            "plain run said, and a preempted request, which reads all of its input again, may go on "
            "otherwise; drop one of them, or simulate it"
        )
    if config.tensor_parallel != num_ranks:
        size = config.tensor_parallel
        raise InputError(
            f"--tensor-parallel {size}: this is {num_ranks} process; start one for each rank with "
            f"`torchrun --nproc-per-node {size} -m engine`, or simulate it"
        )
    if config.max_len > spec.max_positions:
        raise InputError(
            f"maximum length {config.max_len}: model {spec.name} has {spec.max_positions} positions; "
            f"use --max-len {spec.max_positions} or less"
        )
    _refuse_oversize(config, device)


def _refuse_oversize(config: Config, device: torch.device) -> None:
    spec, available = config.spec, available_bytes(device)
    weights = spec.num_parameters * model_dtype(config, device).itemsize
    pool = config.num_slots * spec.kv_bytes_per_token(config.kv_dtype)
    if device.type == "cpu":
        pool += config.num_host_blocks * spec.kv_bytes_per_block(config.block_size, config.kv_dtype)
    if weights + pool <= available:
        return
    gib = 2.0**30
    raise InputError(
        f"model {spec.name} on {device.type}: its weights take {weights / gib:.1f} GiB and the pool "
        f"{pool / gib:.1f} GiB, {available / gib:.1f} GiB are available; use --model tiny or a smaller pool"
    )
