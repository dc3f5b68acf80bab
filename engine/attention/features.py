"""What a score may go through between the dot product and the softmax, and which keys a query may see.

    score  = scale * (query . key * k_scale)
    score  = softcap * tanh(score / softcap)          Gemma 2 (arXiv 2408.00118, section 2)
    score += slope[head] * (key position - position)  ALiBi (arXiv 2108.12409, section 3); never positive
    output = softmax(score) . value * v_scale

The query at position p sees key k when k <= p and, under a window, when k is one of the last `window`
tokens (p included) or one of the first `sinks` tokens of the sequence (StreamingLLM, arXiv 2309.17453).
Where keys are dropped one by one, as heavy hitters do (H2O, arXiv 2306.14048), p <= seen_until[sequence, k].
A slot that no query of the call can see is never read, and neither is its block-table entry.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

ANY_LENGTH = 1 << 31  # more tokens than lengths, which are int32, can say
SMALLEST, LARGEST = torch.finfo(torch.float32).tiny, torch.finfo(torch.float32).max


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """The options of one call, checked and completed."""

    scale: float
    window: int | None
    sinks: int
    alibi_slopes: Tensor | None  # float32 [num_heads]
    softcap: float | None
    k_scale: Tensor | None  # float32 [num_kv_heads]; None is 1
    v_scale: Tensor | None
    seen_until: Tensor | None  # int32 [num_seqs, tokens]

    def first_in_window(self, position: int) -> int:
        """The first key that the query at `position` sees through the window."""
        return 0 if self.window is None else max(0, position - self.window + 1)

    def visible(self, sequence: int, position: int, device: torch.device) -> Tensor:
        """The key positions that the query at `position` of `sequence` sees: int64, ascending."""
        first = self.first_in_window(position)
        sinks = torch.arange(min(self.sinks, first), device=device)
        keys = torch.cat([sinks, torch.arange(first, position + 1, device=device)])
        return keys if self.seen_until is None else keys[self.seen_until[sequence, keys] >= position]


class Options(NamedTuple):
    """The keyword arguments of one call, as the user gave them."""

    scale: float | None = None
    window: int | None = None
    sinks: int = 0
    alibi_slopes: Tensor | None = None
    softcap: float | None = None
    k_scale: float | Tensor | None = None
    v_scale: float | Tensor | None = None
    seen_until: Tensor | None = None


def make_features(query: Tensor, num_kv_heads: int, options: Options) -> Features:
    """The options, checked and completed. Raises ValueError, with the number and the remedy."""
    scale, window, sinks, alibi_slopes, softcap, k_scale, v_scale, seen_until = options
    num_heads, head_dim = query.shape[1], query.shape[2]
    if window is not None and window < 1:
        raise ValueError(f"window {window}: must be at least 1 token, or None for no window")
    if sinks < 0:
        raise ValueError(f"sinks {sinks}: must be a number of tokens, 0 or more")
    if softcap is not None and not softcap > 0:
        raise ValueError(f"softcap {softcap}: must be greater than 0, or None for no cap")
    if softcap is not None and not SMALLEST <= softcap <= LARGEST:
        raise ValueError(f"softcap {softcap:g}: float32 has {SMALLEST:g} to {LARGEST:g}; None means no cap")
    if scale is not None and not math.isfinite(scale):
        raise ValueError(f"scale {scale}: must be a finite number; None means 1/sqrt({head_dim})")
    if alibi_slopes is not None and alibi_slopes.shape != (num_heads,):
        raise ValueError(
            f"alibi_slopes is {list(alibi_slopes.shape)}: must be [{num_heads}], one for each head"
        )
    if alibi_slopes is not None and alibi_slopes.device != query.device:
        raise ValueError(f"alibi_slopes is on {alibi_slopes.device}, query on {query.device}: move it there")
    return Features(
        scale=head_dim**-0.5 if scale is None else float(scale),
        window=None if window is not None and window >= ANY_LENGTH else window,
        sinks=sinks,
        alibi_slopes=None if alibi_slopes is None else alibi_slopes.detach().to(torch.float32).contiguous(),
        softcap=softcap,
        k_scale=per_head_scale("k_scale", k_scale, num_kv_heads, query.device),
        v_scale=per_head_scale("v_scale", v_scale, num_kv_heads, query.device),
        seen_until=seen_until,
    )


def per_head_scale(
    name: str, scale: float | Tensor | None, num_kv_heads: int, device: torch.device
) -> Tensor | None:
    """One number, or one for each kv head, as float32 [num_kv_heads]; None stays None."""
    if scale is None:
        return None
    scales = torch.as_tensor(scale, dtype=torch.float32, device=device).detach().reshape(-1)
    if scales.numel() not in (1, num_kv_heads):
        raise ValueError(
            f"{name} has {scales.numel()} numbers: give 1, or {num_kv_heads}, one for each kv head"
        )
    return scales.expand(num_kv_heads).contiguous()
