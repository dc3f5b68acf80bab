"""Backend `triton`, swap: blocks from GPU memory to the host's and back.

Naive, one transfer for each pair, layer, and keys or values: runs of block_size * heads * head_dim * itemsize
bytes. A transfer costs some microseconds whatever its size, so small ones leave the bus idle: copies of
4 to 24 KiB were published at 4 to 7 GB/s where 64 KiB reach 51 (vLLM issue 42212, an H100 on PCIe 5).

    runs    a block-major pool moves one run a block, neighbours merged: transfers of MIN_RUN bytes and more
            go as they are
    staged  smaller ones are gathered by one kernel into one piece, which crosses in one transfer; the host
            places its part. It costs 2 * bytes of device memory traffic (some 1/40 of the crossing) and a
            copy on the host
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from engine.attention.copy import BITS, move
from engine.attention.triton_copy import groups, is_run, launch
from engine.attention.triton_device import IS_INTERPRETED, check_device

MIN_RUN = 64 * 1024


def swap(sources: Sequence[Tensor], destinations: Sequence[Tensor], pairs: Tensor) -> None:
    """See `engine.attention.swap_blocks`, which checks what comes here."""
    on_gpu = [cache for cache in (*sources, *destinations) if cache.is_cuda]
    check_device([*on_gpu, *sources][0])
    if len(pairs) == 0:
        return
    for some, others in groups(sources, destinations):
        if not (is_run(some[0]) and is_run(others[0])):
            for source, destination in zip(some, others, strict=True):
                move(source, destination, pairs)
        elif some[0].is_cuda and some[0].device == others[0].device:
            launch(some, others, pairs, some[0].device)
        elif some[0][0].nbytes >= MIN_RUN and not IS_INTERPRETED:
            by_runs(some, others, pairs)
        else:
            staged(some, others, pairs)
    if on_gpu and not destinations[0].is_cuda:
        torch.cuda.current_stream(on_gpu[0].device).synchronize()


def by_runs(sources: Sequence[Tensor], destinations: Sequence[Tensor], pairs: Tensor) -> None:
    """One asynchronous transfer for each run of neighbours in both pools."""
    for source, destination in zip(sources, destinations, strict=True):
        for start, to, count in merged_runs(pairs.tolist()):
            destination[to : to + count].copy_(source[start : start + count], non_blocking=True)


def merged_runs(pairs: list[list[int]]) -> Iterator[tuple[int, int, int]]:
    """First source block, first destination block, and number of blocks of pairs that follow one another."""
    at = 0
    while at < len(pairs):
        (start, to), count = pairs[at], 1
        while at + count < len(pairs) and pairs[at + count] == [start + count, to + count]:
            count += 1
        yield start, to, count
        at += count


def staged(sources: Sequence[Tensor], destinations: Sequence[Tensor], pairs: Tensor) -> None:
    """Gather, one transfer, scatter."""
    piece = gather(sources, pairs[:, 0])
    if not destinations[0].is_cuda and piece.is_cuda:
        pinned = torch.empty_like(piece, device="cpu", pin_memory=True)
        pinned.copy_(piece, non_blocking=True)
        torch.cuda.current_stream(piece.device).synchronize()
        piece = pinned
    scatter(piece.to(destinations[0].device, non_blocking=True), destinations, pairs[:, 1])


def gather(caches: Sequence[Tensor], blocks: Tensor) -> Tensor:
    """Those blocks of all caches in one piece [n, num_caches, ...], on the device of the caches."""
    bits, device = BITS[caches[0].element_size()], caches[0].device
    has_kernel = caches[0].is_cuda or IS_INTERPRETED
    is_pinned = not caches[0].is_cuda and torch.cuda.is_available()
    shape = (len(blocks), len(caches), *caches[0].shape[1:])
    piece = torch.empty(shape, dtype=bits, device=device, pin_memory=is_pinned)
    if has_kernel:
        launch(caches, piece.unbind(1), numbered(blocks), device)
        return piece
    for index, cache in enumerate(caches):
        piece[:, index] = cache.view(bits)[blocks.to(device)]
    return piece


def scatter(piece: Tensor, caches: Sequence[Tensor], blocks: Tensor) -> None:
    """The other way."""
    bits, device = BITS[caches[0].element_size()], caches[0].device
    if caches[0].is_cuda or IS_INTERPRETED:
        launch(piece.unbind(1), caches, numbered(blocks).flip(1), device)
        return
    for index, cache in enumerate(caches):
        cache.view(bits)[blocks.to(device)] = piece[:, index]


def numbered(blocks: Tensor) -> Tensor:
    """Pairs (block, its place in the piece)."""
    return torch.stack([blocks, torch.arange(len(blocks), device=blocks.device)], dim=1)
