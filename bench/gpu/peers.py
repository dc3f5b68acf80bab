"""Section: other kernels on the same tensors. Each is optional: what is missing or refuses says why.

    python -m bench.gpu.peers cuda flash_attn SECONDS    one peer on all shapes, as JSON

All but ours and torch's oldest run in processes of their own: a recording that fails leaves torch's random
generator unusable, and a kernel that fails all of the device, for whoever comes next in the process.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention

from bench.gpu.batches import Batch, Shape, small
from bench.gpu.here import Here
from bench.gpu.speed import LONG, MANY, MEDIUM
from bench.gpu.timing import num_sets, timed

SHAPES = {
    "decode B1 S32k": LONG,
    "decode B32 S4k": MEDIUM,
    "decode B128 S1k": MANY,
    "4 queries B32 S4k": replace(MEDIUM, query_len=4),
    "prefill 8k": Shape(num_seqs=1, seq_len=8192, query_len=8192),
}
Call = Callable[[], Any]
Make = Callable[[Batch], Call]


def ours(batch: Batch) -> Call:
    return batch.run


def sdpa(batch: Batch) -> Call:
    """torch's own, on each sequence's keys and values in one piece, copied there beforehand."""
    shape = batch.shape
    query = batch.query.unflatten(0, (shape.num_seqs, -1)).transpose(1, 2)
    keys, values = (
        cache[batch.table.long()].flatten(1, 2)[:, : shape.seq_len].transpose(1, 2).contiguous()
        for cache in batch.caches
    )
    options: dict[str, Any] = {"enable_gqa": True, "is_causal": shape.query_len > 1}
    if 1 < shape.query_len < shape.seq_len:  # its own causal mask is aligned at the first token
        options = {"enable_gqa": True, "attn_mask": causal_lower_right(shape.query_len, shape.seq_len)}
    return lambda: scaled_dot_product_attention(query, keys, values, **options)


def varlen(batch: Batch) -> Call:
    """torch's own over a block table."""
    from torch.nn.attention.varlen import varlen_attn

    shape, bounds = batch.shape, batch.query_start_loc
    options: dict[str, Any] = {"window_size": (-1, 0), "enable_gqa": True, "seqused_k": batch.seq_lens}
    options |= {"block_table": batch.table}
    return lambda: varlen_attn(
        batch.query, *batch.caches, bounds, None, shape.query_len, shape.seq_len, **options
    )


def flash_attn(batch: Batch) -> Call:
    """FlashAttention 2 with a block table."""
    with_cache = import_module("flash_attn").flash_attn_with_kvcache
    query = batch.query.view(batch.shape.num_seqs, -1, *batch.query.shape[1:])
    options = {"cache_seqlens": batch.seq_lens, "block_table": batch.table, "causal": True}
    return lambda: with_cache(query, *batch.caches, **options)


def vllm(batch: Batch) -> Call:
    """vLLM's build of FlashAttention, over its block table."""
    attend = import_module("vllm.vllm_flash_attn").flash_attn_varlen_func
    shape = batch.shape
    lengths = {"seqused_k": batch.seq_lens, "cu_seqlens_q": batch.query_start_loc}
    longest = {"max_seqlen_q": shape.query_len, "max_seqlen_k": shape.seq_len}
    options = {**lengths, **longest, "block_table": batch.table, "causal": True}
    return lambda: attend(q=batch.query, k=batch.caches[0], v=batch.caches[1], **options)


def flashinfer(batch: Batch) -> Call:
    """FlashInfer's decode over pages, with its tensor-core kernel for groups."""
    module, shape, device = import_module("flashinfer"), batch.shape, batch.query.device
    if shape.query_len > 1:
        raise ValueError("only its decode is measured here")
    workspace = torch.empty(256 * 2**20, dtype=torch.uint8, device=device)
    wrapper = module.BatchDecodeWithPagedKVCacheWrapper(workspace, "NHD", use_tensor_cores=True)
    num_blocks = batch.table.shape[1]
    bounds = torch.arange(shape.num_seqs + 1, dtype=torch.int32) * num_blocks
    last = torch.full((shape.num_seqs,), shape.seq_len - (num_blocks - 1) * shape.block_size).int()
    heads = (shape.num_heads, shape.num_kv_heads, shape.head_dim, shape.block_size)
    wrapper.plan(bounds, batch.table.flatten(), last, *heads, q_data_type=shape.dtype)
    return lambda: wrapper.run(batch.query, batch.caches)


def conch(batch: Batch) -> Call:
    """Conch's Triton kernels."""
    shape = batch.shape
    if shape.query_len > 1:
        raise ValueError("only its decode is measured here")
    paged = import_module("conch.ops.attention.paged_attention").paged_attention
    scale = shape.head_dim**-0.5
    return lambda: paged(batch.query, *batch.caches, batch.table, batch.seq_lens, scale=scale)


PEERS: dict[str, tuple[Make, int]] = {  # name -> how to call it, block size it takes
    "pagelab": (ours, 16),
    "torch SDPA": (sdpa, 16),
    "torch varlen_attn": (varlen, 16),
    "torch varlen_attn, blocks of 256": (varlen, 256),
    "flash_attn": (flash_attn, 256),
    "flashinfer": (flashinfer, 16),
    "vLLM": (vllm, 16),
    "conch": (conch, 16),
}


HERE = ("pagelab", "torch SDPA")  # in this process
PACKAGES = {"flash_attn": "flash_attn", "flashinfer": "flashinfer", "vLLM": "vllm", "conch": "conch"}
ROOT = Path(__file__).parents[2]
START_S = 20.0  # what a process may take to start and to finish its last shape
Rows = dict[str, dict[str, Any]]


def peers(here: Here) -> Rows:
    """Seconds of each on each shape, how far its result is from ours, or why there is none."""
    found: Rows = {}
    for peer in HERE:
        found |= of_peer(peer, here)
    for peer, _ in here.cases({peer: None for peer in PEERS if peer not in HERE}, len(PEERS)):
        package = PACKAGES.get(peer)
        if package and find_spec(package) is None:
            found |= skipped(peer, f"package {package} is not installed")
        else:
            found |= apart(peer, here)
    return found


def of_peer(peer: str, here: Here) -> Rows:
    """One peer, on the shapes for which there is time."""
    make, block_size = PEERS[peer]
    cases = {
        f"{name}: {peer}": replace(small(shape, here.device), block_size=block_size)
        for name, shape in SHAPES.items()
    }
    return {name: attempt(make, shape, here.device) for name, shape in here.cases(cases, 1)}


def apart(peer: str, here: Here) -> Rows:
    """The same in a process of its own."""
    left_s = here.left_s
    command = [sys.executable, "-m", "bench.gpu.peers", here.device.type, peer, str(left_s or "inf")]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=left_s)
    except subprocess.TimeoutExpired:
        return skipped(peer, f"not done in {left_s:.0f} s")
    if done.returncode:
        return skipped(peer, f"its process ended with {done.returncode}: {done.stderr[-300:]}")
    found: Rows = json.loads(done.stdout.splitlines()[-1])
    return found


def skipped(peer: str, why: str) -> Rows:
    return {f"{name}: {peer}": {"skipped": why} for name in SHAPES}


def attempt(make: Make, shape: Shape, device: torch.device) -> dict[str, Any]:
    try:
        batches = [Batch(shape, device, seed) for seed in range(num_sets(shape.kv_bytes, device))]
        calls = [make(batch) for batch in batches]
        theirs = calls[0]()
        theirs = theirs[0] if isinstance(theirs, tuple) else theirs
        distance = (flat(theirs, shape) - flat(batches[0].run().clone(), shape)).abs().max().item()
        result = timed(calls, device)
    except Exception as error:  # noqa: BLE001  (a peer may fail in any way; the rest goes on)
        return {"skipped": f"{type(error).__name__}: {error}"[:300]}
    timing = {"seconds": result.seconds, "samples": result.samples, "graph": result.graph}
    return {**shape.facts(), **timing, "max_difference_from_ours": distance}


def flat(result: torch.Tensor, shape: Shape) -> torch.Tensor:
    """[tokens, heads, dim], whether heads came before tokens or after."""
    if result.dim() == 4 and result.shape[1] == shape.num_heads and result.shape[2] == shape.query_len:
        result = result.transpose(1, 2)
    return result.reshape(-1, shape.num_heads, shape.head_dim).double()


def main(device: str, peer: str, left_s: str) -> None:
    here = Here(torch.device(device), stop_at=time.perf_counter() + float(left_s) - START_S)
    found = of_peer(peer, here)
    print(json.dumps(found | {name: {"skipped": "no time was left"} for name in here.left_out}))


if __name__ == "__main__":
    main(*sys.argv[1:])
