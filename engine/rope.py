"""Rotary positions (Su et al. 2021): each pair of a head's dimensions turns with the token's position."""

from math import tau

import torch
from torch import Tensor

from sim.models import ModelSpec
from sim.spec import RopeScaling


def rope_tables(spec: ModelSpec, device: torch.device) -> tuple[Tensor, Tensor]:
    """What `rotate` takes for each position, float32 [max_positions, D]: cosines, and sines of both signs.

    Computed once, on the CPU in float64.
    """
    angles = torch.outer(torch.arange(spec.max_positions, dtype=torch.float64), frequencies(spec))
    cos, sin = angles.cos(), angles.sin()
    cosines, sines = torch.cat([cos, cos], dim=-1), torch.cat([-sin, sin], dim=-1)
    return cosines.float().to(device), sines.float().to(device)


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


def rotate(x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """Rotates the pairs (x[i], x[i + D / 2]) of `x` [T, heads, D], as Llama does.

    first * cos - second * sin, and second * cos + first * sin, for both halves at once: `cosines` and `sines`
    are rows [T, 1, D] of `rope_tables`.
    """
    wide = x.float()
    crossed = wide.roll(x.shape[-1] // 2, dims=-1).mul_(sines)
    return (wide * cosines).add_(crossed).to(x.dtype)
