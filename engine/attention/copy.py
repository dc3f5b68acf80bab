"""Moving whole blocks: copy-on-write inside one pool, swap between two (GPU and host memory)."""

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.attention.backends import choose, pick
from engine.attention.checks import require, require_dtype, require_shape

BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def copy_blocks(caches: Sequence[Tensor], pairs: Tensor, *, backend: str = "auto") -> None:
    """In every cache, copies block `pairs[i, 0]` over block `pairs[i, 1]`, bit for bit.

    caches   tensors [num_blocks, ...], such as the key and the value cache of every layer, or one of them all
    pairs    int64 [n, 2], (source, destination)
    backend  "triton" (caches of one shape and strides in one launch), or "torch" and "cpu", which are the
             same here; "auto": triton on a CUDA device

    Raises ValueError on a wrong shape or dtype and, when `pairs` lies in CPU memory, on a block outside
    the pool, a destination named twice, or a destination that another pair reads: their order would matter.
    """
    for cache in caches:
        check_pairs(pairs, num_sources=cache.shape[0], num_destinations=cache.shape[0])
    check_disjoint(pairs)
    if caches and choose(backend, caches[0]) == "triton":
        pick("copy", "triton", caches[0])(caches, pairs)
        return
    for cache in caches:
        move(cache, cache, pairs)


def swap_blocks(
    source_caches: Sequence[Tensor],
    destination_caches: Sequence[Tensor],
    pairs: Tensor,
    *,
    backend: str = "auto",
) -> None:
    """Copies block `pairs[i, 0]` of each source cache over block `pairs[i, 1]` of its destination cache.

    The two pools may lie on different devices and differ in number of blocks; shape of a block and dtype
    are the same. `backend` as in `copy_blocks`. When the call returns, host memory holds the data.
    Raises ValueError as `copy_blocks` does, and when the caches do not pair up.
    """
    require(
        len(source_caches) == len(destination_caches),
        f"{len(source_caches)} source caches, {len(destination_caches)} destinations: give one for each",
    )
    for source, destination in zip(source_caches, destination_caches, strict=True):
        require_shape("a destination cache", destination, "num_blocks", *source.shape[1:])
        require_dtype("a destination cache", destination, source.dtype)
        check_pairs(pairs, num_sources=source.shape[0], num_destinations=destination.shape[0])
    check_unique(pairs)
    on_gpu = [cache for cache in (*source_caches, *destination_caches) if cache.is_cuda]
    for cache in [*on_gpu, *source_caches][:1]:
        if choose(backend, cache) == "triton":
            pick("swap", "triton", cache)(source_caches, destination_caches, pairs)
            return
    for source, destination in zip(source_caches, destination_caches, strict=True):
        move(source, destination, pairs)


def move(source: Tensor, destination: Tensor, pairs: Tensor) -> None:
    """One gather, one transfer, one scatter. Moves bytes, so that no dtype can change a bit."""
    from_blocks, to_blocks = pairs[:, 0].to(source.device), pairs[:, 1].to(destination.device)
    as_bits = BITS[source.dtype.itemsize]
    staged = source.view(as_bits)[from_blocks].to(destination.device)
    destination.view(as_bits)[to_blocks] = staged


def check_pairs(pairs: Tensor, *, num_sources: int, num_destinations: int) -> None:
    """Shape, dtype and (in CPU memory) range of both columns."""
    require_shape("pairs", pairs, "n", 2)
    require_dtype("pairs", pairs, torch.int64)
    if pairs.is_cuda:
        return
    limits = torch.tensor([num_sources, num_destinations])
    for row, column in ((pairs < 0) | (pairs >= limits)).nonzero()[:1].tolist():
        raise ValueError(
            f"pairs[{row}, {column}] is block {int(pairs[row, column])}: that pool has blocks 0 to "
            f"{int(limits[column]) - 1}"
        )


def check_unique(pairs: Tensor) -> None:
    """No destination twice."""
    if pairs.is_cuda:
        return
    blocks, counts = pairs[:, 1].unique(return_counts=True)
    for block in blocks[counts > 1][:1].tolist():
        raise ValueError(f"block {block} is the destination of {int(counts.max())} pairs: which copy stays?")


def check_disjoint(pairs: Tensor) -> None:
    """No destination twice, and none that is also a source."""
    check_unique(pairs)
    if pairs.is_cuda:
        return
    for block in pairs[torch.isin(pairs[:, 1], pairs[:, 0]), 1][:1].tolist():
        raise ValueError(
            f"block {block} is source and destination at once: copy in two calls, in the order you mean"
        )
