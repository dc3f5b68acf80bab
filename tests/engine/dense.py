"""A Llama forward pass without any cache, written once more and plainly: the oracle of the engine's."""

import torch
from torch import Tensor

from engine.model import LlamaModel


def dense_logits(
    model: LlamaModel,
    token_ids: list[int],
    window: int | None = None,
    sinks: int = 0,
    *,
    dropped: Tensor | None = None,
) -> Tensor:
    """Logits [tokens, vocab] in float64 of one sequence, every position from scratch.

    `dropped`: bool [tokens, tokens], keys that a query does not see though they precede it.
    """
    spec = model.spec
    epsilon, base = spec.rms_epsilon, spec.rope_base
    x = model.embedding[token_ids].double()
    for layer in model.layers:
        qkv = normed(x, layer.attention_norm, epsilon) @ layer.qkv.double().T
        sizes = [spec.num_heads * spec.head_dim] + 2 * [spec.num_kv_heads * spec.head_dim]
        query, key, value = (part.unflatten(1, (-1, spec.head_dim)) for part in qkv.split(sizes, dim=1))
        heads = []
        for head in range(spec.num_heads):
            shared = head // spec.queries_per_kv_head
            scores = rotated(query[:, head], base) @ rotated(key[:, shared], base).T / spec.head_dim**0.5
            unseen = torch.ones_like(scores, dtype=torch.bool).triu(1)
            if window is not None:  # a query sees the last `window` tokens and the first `sinks`
                unseen |= torch.ones_like(unseen).tril(-window) & (torch.arange(len(scores)) >= sinks)
            if dropped is not None:
                unseen |= dropped
            heads.append(scores.masked_fill(unseen, -torch.inf).softmax(dim=-1) @ value[:, shared])
        x = x + torch.cat(heads, dim=1) @ layer.output.double().T
        gate, up = (normed(x, layer.mlp_norm, epsilon) @ layer.gate_up.double().T).chunk(2, dim=1)
        x = x + (gate * torch.sigmoid(gate) * up) @ layer.down.double().T
    return normed(x, model.final_norm, epsilon) @ model.lm_head.double().T


def normed(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    return x / (x.pow(2).mean(dim=-1, keepdim=True) + epsilon).sqrt() * weight.double()


def rotated(x: Tensor, base: float) -> Tensor:
    """Rotary positions as complex numbers: (x[i], x[i + D / 2]) turns by position x base^(-2 i / D)."""
    half = x.shape[1] // 2
    angles = torch.outer(torch.arange(len(x)).double(), base ** (-torch.arange(half).double() / half))
    turned = torch.complex(x[:, :half], x[:, half:]) * torch.polar(torch.ones_like(angles), angles)
    return torch.cat([turned.real, turned.imag], dim=1)
