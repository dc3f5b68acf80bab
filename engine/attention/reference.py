"""Attention backend `torch`: one query token at a time, no trick. Slow, obvious, the oracle of the others.

Sums are kept in float64 when query is float64, else in float32.
"""

import torch
from torch import Tensor

from engine.attention.features import Features
from engine.attention.kv import KV


def decode(query: Tensor, kv: KV, seq_lens: Tensor, features: Features, out: Tensor) -> None:
    """out[i] = attention of query[i], the last token of sequence i; zeros where seq_lens[i] is 0."""
    for sequence, length in enumerate(seq_lens.tolist()):
        out[sequence] = attend(query[sequence], kv, sequence, length - 1, features)


def prefill(
    query: Tensor, kv: KV, seq_lens: Tensor, query_start_loc: Tensor, features: Features, out: Tensor
) -> None:
    """Query rows [query_start_loc[i], query_start_loc[i + 1]) are the last tokens of sequence i."""
    bounds = query_start_loc.tolist()
    for sequence, length in enumerate(seq_lens.tolist()):
        first, last = bounds[sequence], bounds[sequence + 1]
        for row in range(first, last):
            position = length - last + row
            out[row] = attend(query[row], kv, sequence, position, features)


short = prefill  # for a few query tokens it does the same


def attend(query: Tensor, kv: KV, sequence: int, position: int, features: Features) -> Tensor:
    """Attention of one query token [num_heads, head_dim] that sits at `position` of `sequence`."""
    if position < 0:
        return torch.zeros_like(query)
    math_dtype = torch.float64 if query.dtype == torch.float64 else torch.float32
    visible = features.visible(sequence, position, query.device)
    stored = kv.stored

    def numbers(codes: Tensor, token_scales: Tensor | None, head_scale: Tensor | None) -> Tensor:
        picked = kv.gather(codes, sequence, visible).to(math_dtype)
        if token_scales is not None:
            picked = picked * kv.gather(token_scales, sequence, visible).to(math_dtype)[..., None]
        return picked if head_scale is None else picked * head_scale.to(math_dtype)[:, None]

    keys = numbers(stored.keys, stored.key_scales, features.k_scale)  # [tokens, kv heads, dim]
    values = numbers(stored.values, stored.value_scales, features.v_scale)

    # head h reads the keys of kv head h // group
    grouped = query.to(math_dtype).unflatten(0, (kv.num_kv_heads, -1))  # [kv heads, group, dim]
    scores = torch.einsum("hgd,nhd->hgn", grouped, keys) * features.scale
    if features.softcap is not None:
        scores = features.softcap * torch.tanh(scores / features.softcap)
    if features.alibi_slopes is not None:
        slopes = features.alibi_slopes.to(math_dtype).view(kv.num_kv_heads, -1, 1)
        scores = scores + slopes * (visible - position)
    weights = torch.softmax(scores, dim=-1)
    return torch.einsum("hgn,nhd->hgd", weights, values).flatten(0, 1).to(query.dtype)
