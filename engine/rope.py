"""Rotary positions (Su et al. 2021): each pair of a head's dimensions turns with the token's position."""

from math import tau

import torch
from torch import Tensor

from sim.models import ModelSpec
from sim.spec import RopeScaling


def rope_tables(spec: ModelSpec, device: torch.device) -> tuple[Tensor, Tensor]:
    """Cosines and sines, float32 [max_positions, D / 2], computed once on the CPU in float64."""
    angles = torch.outer(torch.arange(spec.max_positions, dtype=torch.float64), frequencies(spec))
    return angles.cos().float().to(device), angles.sin().float().to(device)


def frequencies(spec: ModelSpec) -> Tensor:
    """Radians per token of each pair, float64 [D / 2], fastest first."""
    exponents = torch.arange(0, spec.head_dim, 2, dtype=torch.float64) / spec.head_dim
    turning = spec.rope_base**-exponents
    return turning if spec.rope_scaling is None else stretch(turning, spec.rope_scaling)


def stretch(turning: Tensor, scaling: RopeScaling) -> Tensor:
    """Llama 3.1's: slow pairs by `factor`, fast ones not at all, those between by a blend of both."""
    turns = scaling.original_positions * turning / tau  # whole turns in the context of the first training
    is_fast = (turns - scaling.low_frequency) / (scaling.high_frequency - scaling.low_frequency)
    share = is_fast.clamp(0.0, 1.0)
    return share * turning + (1.0 - share) * turning / scaling.factor


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotates the pairs (x[i], x[i + D / 2]) of `x` [T, heads, D], as Llama does."""
    first, second = x.float().chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1).to(x.dtype)
