"""Writing the keys and values of new tokens into their slots."""

import torch
from torch import Tensor

from engine.attention.backends import choose, pick
from engine.attention.checks import (
    QUANTIZED_DTYPES,
    check_stored,
    require,
    require_device,
    require_dtype,
    require_shape,
)
from engine.attention.features import per_head_scale
from engine.attention.kv import Stored

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
    key_scales: Tensor | None = None,
    value_scales: Tensor | None = None,
    backend: str = "auto",
) -> None:
    """Stores token i in slot `slot_mapping[i]`.

    key, value    [tokens, num_kv_heads, head_dim], any strides
    caches        [num_blocks, block_size, num_kv_heads, head_dim] (slot = block * block_size + offset),
                  or an arena [num_slots, num_kv_heads, head_dim]; any strides but head_dim's, which is 1
    slot_mapping  int64 [tokens]; -1 writes nothing. Of two tokens with one slot, either may win.
    k_scale, v_scale  only for a quantized cache (int8, float8): it stores round(number / scale), held
                  within its range; one number, or one for each kv head. None is 1.
    key_scales, value_scales  in place of those: float32, of the caches' shape without head_dim. Each vector
                  is divided by its largest number over the largest code, which is written here. Of a
                  vector with a NaN that is NaN; its codes are numbers.
    backend       "triton", or "torch" and "cpu", which are the same here; "auto": triton on a CUDA device

    Raises ValueError on a wrong shape, dtype or device, on scales for a cache that is not quantized, and
    (in CPU memory, where looking is free) on a slot outside the pool.
    """
    stored = Stored(key_cache, value_cache, key_scales, value_scales)
    check_write(key, value, stored, slot_mapping)
    if k_scale is not None or v_scale is not None:
        require(
            key_cache.dtype in QUANTIZED_DTYPES,
            f"the cache is {key_cache.dtype}, not quantized: leave k_scale and v_scale out",
        )
        require(
            key_scales is None,
            "k_scale and key_scales: a vector is divided by one of them; leave one out",
        )
    k_scales = per_head_scale("k_scale", k_scale, key_cache.shape[-2], key_cache.device)
    v_scales = per_head_scale("v_scale", v_scale, key_cache.shape[-2], key_cache.device)
    write_checked(key, value, stored, slot_mapping, k_scales, v_scales, backend)


def check_write(key: Tensor, value: Tensor, stored: Stored, slot_mapping: Tensor) -> None:
    """What `write_kv` says of its tensors."""
    key_cache, value_cache = stored[:2]
    check_stored(stored, num_dims=3 if key_cache.dim() == 3 else 4)
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
    stored: Stored,
    slot_mapping: Tensor,
    k_scales: Tensor | None = None,
    v_scales: Tensor | None = None,
    backend: str = "auto",
) -> None:
    """`write_kv` for who has called `check_write`: a step of an engine does it in its first layer.

    Scales are float32 [num_kv_heads].
    """
    is_triton = choose(backend, key) == "triton"
    if stored.key_scales is None:
        write = pick("write", "triton", key) if is_triton else scatter
        write(key, value, *stored[:2], slot_mapping, k_scales, v_scales)
    else:
        write = pick("write_codes", "triton", key) if is_triton else scatter_codes
        write(key, value, stored, slot_mapping, LARGEST_CODE[stored.keys.dtype])


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
    key, value, where = written_tokens(key, value, key_cache, slot_mapping)
    put(key_cache, where, encode(key, key_cache.dtype, None if k_scales is None else k_scales[:, None]))
    put(value_cache, where, encode(value, value_cache.dtype, None if v_scales is None else v_scales[:, None]))


def scatter_codes(key: Tensor, value: Tensor, stored: Stored, slot_mapping: Tensor, largest: float) -> None:
    """The same with a scale for each vector."""
    keys, values, key_scales, value_scales = stored
    assert key_scales is not None and value_scales is not None
    key, value, where = written_tokens(key, value, keys, slot_mapping)
    for new, cache, scales in ((key, keys, key_scales), (value, values, value_scales)):
        own = scales_for(new, largest)
        scales[where] = own
        put(cache, where, encode(new, cache.dtype, own[..., None], nan=0.0))


def scales_for(numbers: Tensor, largest: float) -> Tensor:
    """float32 [...]: what vectors [..., D] are divided by: their largest number gets the largest code."""
    peak = numbers.float().abs().amax(dim=-1)
    return torch.where(peak == 0, 1.0, peak / largest)


def written_tokens(
    key: Tensor, value: Tensor, cache: Tensor, slot_mapping: Tensor
) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    """Those that have a slot, and the index of their slots in `cache`."""
    is_token = slot_mapping >= 0
    if not bool(is_token.all()):  # picking costs more than the write
        key, value, slot_mapping = key[is_token], value[is_token], slot_mapping[is_token]
    size = cache.shape[1]
    where = (slot_mapping,) if cache.dim() == 3 else (slot_mapping // size, slot_mapping % size)
    return key, value, where


def check_slots(slot_mapping: Tensor, cache: Tensor) -> None:
    """Every slot is -1 or lies in the pool."""
    num_slots = cache.shape[0] if cache.dim() == 3 else cache.shape[0] * cache.shape[1]
    for token in ((slot_mapping < -1) | (slot_mapping >= num_slots)).nonzero()[:1, 0].tolist():
        raise ValueError(
            f"slot_mapping[{token}] is {int(slot_mapping[token])}: the pool has slots 0 to {num_slots - 1}; "
            "-1 writes nothing"
        )


def encode(numbers: Tensor, dtype: torch.dtype, scale: Tensor | None, *, nan: float | None = None) -> Tensor:
    """[tokens, num_kv_heads, head_dim] over `scale` as the cache stores them, `nan` in place of NaN."""
    if dtype not in QUANTIZED_DTYPES:
        return numbers.to(dtype)
    scaled = numbers.to(torch.float32) if scale is None else numbers.to(torch.float32) / scale
    if nan is not None:
        scaled = scaled.nan_to_num(nan)
    if dtype == torch.int8:
        scaled = scaled.round()
    return scaled.clamp(-LARGEST_CODE[dtype], LARGEST_CODE[dtype]).to(dtype)


def put(cache: Tensor, where: tuple[Tensor, ...], stored: Tensor) -> None:
    """cache[where] = stored. Moves float8 as bytes, for which torch has no indexed write on every device."""
    if cache.dtype.itemsize == 1:
        cache, stored = cache.view(torch.uint8), stored.view(torch.uint8)
    cache[where] = stored
