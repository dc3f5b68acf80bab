"""Writing the keys and values of new tokens into their slots."""

import torch
from torch import Tensor

from engine.attention.backends import choose, pick
from engine.attention.checks import (
    QUANTIZED_DTYPES,
    check_caches,
    require,
    require_device,
    require_dtype,
    require_shape,
)
from engine.attention.features import per_head_scale

# The largest code a quantized cache stores. int8 leaves -128 unused: it marks a slot that was never written.
LARGEST_CODE = {torch.int8: 127.0, torch.float8_e4m3fn: 448.0, torch.float8_e5m2: 57344.0}


def write_kv(
    key: Tensor,
    value: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    slot_mapping: Tensor,
    *,
    k_scale: float | Tensor | None = None,
    v_scale: float | Tensor | None = None,
    backend: str = "auto",
) -> None:
    """Stores token i in slot `slot_mapping[i]`.

    key, value    [tokens, num_kv_heads, head_dim], any strides
    caches        [num_blocks, block_size, num_kv_heads, head_dim] (slot = block * block_size + offset),
                  or an arena [num_slots, num_kv_heads, head_dim]; any strides but head_dim's, which is 1
    slot_mapping  int64 [tokens]; -1 writes nothing. Of two tokens with one slot, either may win.
    k_scale, v_scale  only for a quantized cache (int8, float8): it stores round(number / scale), held
                  within its range; one number, or one for each kv head. None is 1.
    backend       "triton", or "torch" and "cpu", which are the same here; "auto": triton on a CUDA device

    Raises ValueError on a wrong shape, dtype or device, on scales for a cache that is not quantized, and
    (in CPU memory, where looking is free) on a slot outside the pool.
    """
    check_write(key, value, key_cache, value_cache, slot_mapping)
    if key_cache.dtype not in QUANTIZED_DTYPES:
        require(
            k_scale is None and v_scale is None,
            f"the cache is {key_cache.dtype}, not quantized: leave k_scale and v_scale out",
        )
    k_scales = per_head_scale("k_scale", k_scale, key_cache.shape[-2], key_cache.device)
    v_scales = per_head_scale("v_scale", v_scale, key_cache.shape[-2], key_cache.device)
    write_checked(key, value, key_cache, value_cache, slot_mapping, k_scales, v_scales, backend)


def check_write(
    key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, slot_mapping: Tensor
) -> None:
    """What `write_kv` says of its tensors."""
    check_caches(key_cache, value_cache, num_dims=3 if key_cache.dim() == 3 else 4)
    require_shape("key", key, "tokens", *key_cache.shape[-2:])
    require_shape("value", value, *key.shape)
    require_shape("slot_mapping", slot_mapping, key.shape[0])
    require_dtype("slot_mapping", slot_mapping, torch.int64)
    tensors = [("value", value), ("the key cache", key_cache), ("the value cache", value_cache)]
    require_device(("key", key), *tensors, ("slot_mapping", slot_mapping))
    if not slot_mapping.is_cuda:
        check_slots(slot_mapping, key_cache)


def write_checked(
    key: Tensor,
    value: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    slot_mapping: Tensor,
    k_scales: Tensor | None = None,
    v_scales: Tensor | None = None,
    backend: str = "auto",
) -> None:
    """`write_kv` for who has called `check_write`: a step of an engine does it in its first layer.

    Scales are float32 [num_kv_heads].
    """
    is_triton = choose(backend, key) == "triton"
    write = pick("write", "triton", key) if is_triton else scatter
    write(key, value, key_cache, value_cache, slot_mapping, k_scales, v_scales)


def scatter(
    key: Tensor,
    value: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    slot_mapping: Tensor,
    k_scales: Tensor | None,
    v_scales: Tensor | None,
) -> None:
    """The write in torch's own operations, on any device: the oracle of the kernel."""
    is_token = slot_mapping >= 0
    if not bool(is_token.all()):  # picking costs more than the write
        key, value, slot_mapping = key[is_token], value[is_token], slot_mapping[is_token]
    size = key_cache.shape[1]
    where = (slot_mapping,) if key_cache.dim() == 3 else (slot_mapping // size, slot_mapping % size)
    put(key_cache, where, encode(key, key_cache.dtype, k_scales))
    put(value_cache, where, encode(value, value_cache.dtype, v_scales))


def check_slots(slot_mapping: Tensor, cache: Tensor) -> None:
    """Every slot is -1 or lies in the pool."""
    num_slots = cache.shape[0] if cache.dim() == 3 else cache.shape[0] * cache.shape[1]
    for token in ((slot_mapping < -1) | (slot_mapping >= num_slots)).nonzero()[:1, 0].tolist():
        raise ValueError(
            f"slot_mapping[{token}] is {int(slot_mapping[token])}: the pool has slots 0 to {num_slots - 1}; "
            "-1 writes nothing"
        )


def encode(numbers: Tensor, dtype: torch.dtype, scale: Tensor | None) -> Tensor:
    """[tokens, num_kv_heads, head_dim] as the cache stores them."""
    if dtype not in QUANTIZED_DTYPES:
        return numbers.to(dtype)
    scaled = numbers.to(torch.float32) if scale is None else numbers.to(torch.float32) / scale[:, None]
    if dtype == torch.int8:
        scaled = scaled.round()
    return scaled.clamp(-LARGEST_CODE[dtype], LARGEST_CODE[dtype]).to(dtype)


def put(cache: Tensor, where: tuple[Tensor, ...], stored: Tensor) -> None:
    """cache[where] = stored. Moves float8 as bytes, for which torch has no indexed write on every device."""
    if cache.dtype.itemsize == 1:
        cache, stored = cache.view(torch.uint8), stored.view(torch.uint8)
    cache[where] = stored
