"""What a decoder does to each token by itself, in one pass over memory where there is a loop for it.

torch makes several passes of each, and on a CPU a pass over few numbers costs more in calls than in work.
On other devices and dtypes these are torch's own operations, against which the loops are tested too.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from engine.attention.cpu_backend import share_out
from engine.attention.cpu_jit import compiled
from engine.attention.cpu_rows import ONE, ZERO, exp, f32


def rms_norm(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """Each row of `x` [rows, n] over its root mean square (Zhang and Sennrich 2019), times `weight` [n]."""
    if not _has_loop(x):
        return functional.rms_norm(x, weight.shape, weight, epsilon)
    given = x.numpy(), weight.numpy(), f32(epsilon)
    return _by_rows(x, x.shape[1], lambda first, last, out: _norm(first, last, *given, out))


def swiglu(gate_up: Tensor) -> Tensor:
    """silu(gate) * up (Shazeer 2020) for rows [gate, up], each half [rows, n]: [rows, n]."""
    width = gate_up.shape[1] // 2
    if not _has_loop(gate_up):
        gate, up = gate_up.split(width, dim=-1)
        return functional.silu(gate) * up
    numbers = gate_up.numpy()
    return _by_rows(gate_up, width, lambda first, last, out: _swiglu(first, last, numbers, out))


def _has_loop(x: Tensor) -> bool:
    return x.device.type == "cpu" and x.dtype is torch.float32 and x.stride(-1) == 1


def _by_rows(x: Tensor, width: int, loop: Callable[[int, int, Any], None]) -> Tensor:
    result = torch.empty(len(x), width)
    out = result.numpy()
    share_out(lambda first, last: loop(first, last, out), len(x), x.numel())
    return result


@compiled
def _norm(first: int, last: int, x: Any, weight: Any, epsilon: float, out: Any) -> None:
    width = x.shape[1]
    for row in range(first, last):
        total = ZERO
        for d in range(width):
            total += x[row, d] * x[row, d]
        scale = ONE / np.sqrt(total / f32(width) + epsilon)
        for d in range(width):
            out[row, d] = x[row, d] * scale * weight[d]


@compiled
def _swiglu(first: int, last: int, gate_up: Any, out: Any) -> None:
    width = out.shape[1]
    for row in range(first, last):
        for d in range(width):
            gate = gate_up[row, d]
            power = exp(-abs(gate))  # at most 1: nothing overflows
            sigmoid = (ONE if gate >= ZERO else power) / (ONE + power)
            out[row, d] = gate * sigmoid * gate_up[row, width + d]
