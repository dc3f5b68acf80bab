"""Where an 8-bit cache keeps its codes and, for each token and kv head of K and of V, one float32 scale.

    number = code * scale        scale = largest |number| of the vector / largest code
    NaN    a vector with one has a scale of NaN, and codes that are not the sentinel
    int8   codes -127..127; -128 is the sentinel        fp8   e4m3, to +-448; a NaN is the sentinel

A block has its codes first and its scales behind them, so that a copy or a swap moves both in one run, and
rows of codes begin where a load of 16 bytes can:

    [ codes: layers x 2 x block_size x HKV x D bytes | scales: layers x 2 x block_size x HKV x 4 bytes ]

These are the D + 4 bytes a vector that `sim.models` counts. The kernels read both where they lie.
"""

import torch
from torch import Tensor

from engine.attention.kv import Stored
from engine.sentinel import fill, new_pool
from sim.models import SCALE_BYTES

QUANTIZED = {"int8": torch.int8, "fp8": torch.float8_e4m3fn}


def has_scales(dtype: torch.dtype) -> bool:
    """Whether a cache of this dtype holds codes."""
    return dtype in QUANTIZED.values()


def new_blocks(
    num_blocks: int,
    shape: tuple[int, ...],
    dtype: torch.dtype,
    device: torch.device,
    *,
    is_marked: bool = True,
) -> tuple[Tensor, list[Tensor]]:
    """Blocks of vectors `shape` = [layers, 2, block_size, HKV, D], see `new_pool`: the memory, one run a
    block, and its parts [num_blocks, *shape]; of codes a second part [num_blocks, *shape[:-1]], float32."""
    if not has_scales(dtype):
        storage = new_pool((num_blocks, *shape), dtype, device, is_marked=is_marked)
        return storage, [storage]
    num_vectors = torch.Size(shape[:-1]).numel()
    num_codes = num_vectors * shape[-1]
    size = num_codes + num_vectors * SCALE_BYTES
    storage = new_pool((num_blocks, size), dtype, device, is_marked=is_marked)
    scales = storage.view(torch.uint8)[:, num_codes:].view(torch.float32).unflatten(1, shape[:-1])
    if is_marked:
        fill(scales, torch.arange(num_blocks, device=device))
    return storage, [storage[:, :num_codes].unflatten(1, shape), scales]


def new_slots(
    shape: tuple[int, ...], dtype: torch.dtype, device: torch.device, *, is_marked: bool = True
) -> list[Tensor]:
    """Vectors [layers, 2, slots, HKV, D], see `new_pool`, and of codes scales [layers, 2, slots, HKV]."""
    parts = [new_pool(shape, dtype, device, is_marked=is_marked)]
    if has_scales(dtype):
        parts.append(new_pool(shape[:-1], torch.float32, device, is_marked=is_marked))
    return parts


def layers_of(parts: list[Tensor], layer_dim: int) -> list[Stored]:
    """What each layer has stored, as views of the parts; keys and values follow the layers."""
    by_layer = zip(*(part.unbind(layer_dim) for part in parts), strict=True)
    return [Stored(*(view for part in layer for view in part.unbind(layer_dim))) for layer in by_layer]
