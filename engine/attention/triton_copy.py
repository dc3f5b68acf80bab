"""Backend `triton`, block copy: blocks over blocks, in all caches, in one launch.

Why. Copy-on-write copies a few blocks of every layer's keys and values; a swap moves whole sequences.

Naive, one copy call for each pair and cache: pairs * layers * 2 launches of some microseconds, each for a run
of block_size * heads * head_dim * itemsize bytes (32 KiB at 16 * 8 * 128 * 2). With an indexed gather and
scatter for each cache: two launches and 4 * pairs * run bytes, twice what is needed.
Here one launch copies all of them, and each byte is read and written once:

    bytes = 2 * pairs * caches * run

In a block-major pool [blocks, layers, 2, block_size, heads, head_dim] one run goes through all layers.
Data moves as 4-byte integers, 16 bytes a thread, so no dtype can change a bit.
"""

# pyright: reportGeneralTypeIssues=false, reportAssignmentType=false, reportArgumentType=false

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.attention.copy import move
from engine.attention.triton_device import check_device

CHUNK = 4096  # elements that one program moves: 16 KiB
NUM_WARPS = 4


@triton.jit(do_not_specialize=["run"], do_not_specialize_on_alignment=["sources", "destinations", "pairs"])
def copy_kernel(
    sources,  # int64 [num_caches]: address of each source cache
    destinations,
    pairs,  # int64 [num_pairs, 2]: source block, destination block
    from_block, to_block, run,  # elements from one block to the next, and in a run
    CHUNK: tl.constexpr,
    WIDE: tl.constexpr,  # everything is a multiple of 16 bytes: elements are int32, else bytes
):  # fmt: skip
    """Program (pair, cache, chunk of the run)."""
    pair, cache = tl.program_id(0).to(tl.int64), tl.program_id(1)
    from_at = tl.load(pairs + 2 * pair) * from_block
    to_at = tl.load(pairs + 2 * pair + 1) * to_block
    ELEMENT: tl.constexpr = tl.int32 if WIDE else tl.uint8
    source = tl.load(sources + cache).to(tl.pointer_type(ELEMENT)) + from_at
    destination = tl.load(destinations + cache).to(tl.pointer_type(ELEMENT)) + to_at
    at = tl.program_id(2).to(tl.int64) * CHUNK + tl.arange(0, CHUNK)
    is_in = at < run
    if WIDE:  # the loaded addresses are multiples of 16, which only the host knows
        source, destination = tl.multiple_of(source, 16), tl.multiple_of(destination, 16)
        is_in = tl.max_constancy(is_in, 4)
    tl.store(destination + at, tl.load(source + at, mask=is_in), mask=is_in)


def copy(caches: Sequence[Tensor], pairs: Tensor) -> None:
    """See `engine.attention.copy_blocks`, which checks what comes here."""
    check_device(caches[0])
    for alike, _ in groups(caches, caches):
        if is_run(alike[0]):
            launch(alike, alike, pairs, alike[0].device)
        else:
            for cache in alike:
                move(cache, cache, pairs)


def groups(
    sources: Sequence[Tensor], destinations: Sequence[Tensor]
) -> list[tuple[list[Tensor], list[Tensor]]]:
    """Pairs of caches with the same shape, strides and dtype: what one launch can do."""
    found: dict[Any, tuple[list[Tensor], list[Tensor]]] = {}
    for source, destination in zip(sources, destinations, strict=True):
        key = (source.dtype, source.shape, source.stride(), destination.shape, destination.stride())
        alike = found.setdefault(key, ([], []))
        alike[0].append(source)
        alike[1].append(destination)
    return list(found.values())


def launch(
    sources: Sequence[Tensor], destinations: Sequence[Tensor], pairs: Tensor, device: torch.device
) -> None:
    """destinations[c][pairs[i, 1]] = sources[c][pairs[i, 0]] for all c and i, in one launch.

    Sources are alike, destinations are (see `groups`), and every block is one run (see `is_run`). The kernel
    runs on `device`, which can reach pinned host memory too.
    """
    if len(pairs) == 0 or sources[0][0].numel() == 0:
        return
    size = sources[0].element_size()
    run, steps = sources[0][0].numel() * size, (sources[0].stride(0) * size, destinations[0].stride(0) * size)
    addresses = [tuple(cache.data_ptr() for cache in caches) for caches in (sources, destinations)]
    is_wide = all(number % 16 == 0 for number in (run, *steps, *addresses[0], *addresses[1]))
    unit = 4 if is_wide else 1
    tables = (address_table(numbers, device) for numbers in addresses)
    kernel: Any = copy_kernel
    pairs = pairs.to(device, non_blocking=True).contiguous()
    sizes = (steps[0] // unit, steps[1] // unit, run // unit)
    chunk = CHUNK if is_wide else CHUNK // 4  # single bytes take more registers each
    constants = {"CHUNK": chunk, "WIDE": is_wide, "num_warps": NUM_WARPS}
    kernel[len(pairs), len(sources), -(-sizes[2] // chunk)](*tables, pairs, *sizes, **constants)


def is_run(cache: Tensor) -> bool:
    """Whether each block is one run of memory, whatever lies between blocks."""
    return len(cache) > 0 and cache[0].is_contiguous()


@lru_cache(maxsize=64)
def address_table(addresses: tuple[int, ...], device: torch.device) -> Tensor:
    """int64 on the device. Pools live long: the same addresses come at every call."""
    return torch.tensor(addresses, dtype=torch.int64, device=device)
