"""How long a step takes, modelled. Every time that comes from here is labelled `modelled`."""

import json
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from sim.batch import Batch
from sim.clock import PS_PER_S, step_ps
from sim.config import Config
from sim.errors import InputError
from sim.hardware import Hardware, get_hardware
from sim.models import ModelSpec


class TimingModel(Protocol):
    """Says how long a step takes, in seconds."""

    def seconds(self, batch: Batch) -> float:
        """How long `batch` takes."""
        ...

    def cost(self, tokens: Any, context: Any, pairs: Any, swapped: Any = 0, copied: Any = 0) -> Any:
        """How long a step takes that has these totals: see the properties of `Batch`.

        Each is an integer, or an int64 array [steps] for many steps at once; so is the result, in floats.
        Numbers and arrays go through the same operations in the same order, so both give the same bits.
        """
        ...

    def decode_ps(self, num_sequences: int, context: int, count: int) -> list[int]:
        """How long each of `count` steps takes in which the same sequences decode, the first with `context`.

        `step_ps` of its `cost`, but faster than one by one. Never shorter than the step before.
        """
        ...


class _Timing(ABC):
    """`seconds` from `cost`."""

    @abstractmethod
    def cost(self, tokens: Any, context: Any, pairs: Any, swapped: Any = 0, copied: Any = 0) -> Any: ...

    def seconds(self, batch: Batch) -> float:
        return self.cost(
            batch.num_tokens,
            batch.num_context_tokens,
            batch.num_attention_pairs,
            batch.num_swapped_blocks,
            batch.num_copied_tokens,
        )


class UnitTiming(_Timing):
    """Every step lasts exactly one second: for worked examples and for counting steps."""

    def cost(self, tokens: Any, context: Any, pairs: Any, swapped: Any = 0, copied: Any = 0) -> Any:
        return 1.0 + 0.0 * context

    def decode_ps(self, num_sequences: int, context: int, count: int) -> list[int]:
        return [PS_PER_S] * count


@dataclass(frozen=True)
class RooflineTiming(_Timing):
    """The longer of computing and reading memory, at the datasheet's peaks: a floor, not a forecast.

    flops = 2 x parameters x tokens + 4 x layers x heads x head_dim x (query, key) pairs
    bytes = weights + KV bytes per token x (tokens read by attention + tokens written)

    Swapped blocks cross the host link and copied tokens are read and written once, before the step.
    Source: Williams, Waterman, Patterson, "Roofline", CACM 2009, on the decoder's matrix products.
    """

    spec: ModelSpec
    hardware: Hardware
    kv_dtype: str
    block_size: int

    def cost(self, tokens: Any, context: Any, pairs: Any, swapped: Any = 0, copied: Any = 0) -> Any:
        flops_per_token, flops_per_pair, weights_bytes, kv_bytes, flops_per_s, bytes_per_s = self._rates
        computing = (flops_per_token * tokens + flops_per_pair * pairs) / flops_per_s
        reading = (weights_bytes + kv_bytes * (context + tokens)) / bytes_per_s
        step = max(computing, reading) if isinstance(computing, float) else np.maximum(computing, reading)
        swapping = kv_bytes * self.block_size * swapped / self.hardware.link_bytes_per_s
        copying = 2 * kv_bytes * copied / bytes_per_s
        return step + swapping + copying

    def decode_ps(self, num_sequences: int, context: int, count: int) -> list[int]:
        flops_per_token, flops_per_pair, weights_bytes, kv_bytes, flops_per_s, bytes_per_s = self._rates
        flops = flops_per_token * num_sequences
        steps: list[int] = []
        seconds = 0.0
        for read in range(context, context + count * num_sequences, num_sequences):
            computing = (flops + flops_per_pair * read) / flops_per_s
            reading = (weights_bytes + kv_bytes * (read + num_sequences)) / bytes_per_s
            seconds = computing if computing > reading else reading
            steps.append(round(seconds * PS_PER_S) or 1)
        step_ps(seconds)  # the last is the longest: refuses what is beyond counting
        return steps

    @cached_property
    def _rates(self) -> tuple[float, float, float, float, float, float]:
        """Floats, so that numbers and arrays are rounded alike even beyond 2^53."""
        spec, device = self.spec, self.hardware
        rates = (
            2 * spec.num_parameters,
            4 * spec.num_layers * spec.num_heads * spec.head_dim,
            spec.weights_bytes(),
            spec.kv_bytes_per_token(self.kv_dtype),
            device.flops_per_s,
            device.bandwidth_bytes_per_s,
        )
        a, b, c, d, e, f = map(float, rates)
        return a, b, c, d, e, f


@dataclass(frozen=True, slots=True)
class LinearTiming(_Timing):
    """A sum of costs, read from a file: seconds per step, token, context token, pair and swapped block."""

    step: float = 0.0
    token: float = 0.0
    context_token: float = 0.0
    attention_pair: float = 0.0
    swapped_block: float = 0.0

    def cost(self, tokens: Any, context: Any, pairs: Any, swapped: Any = 0, copied: Any = 0) -> Any:
        return (
            self.step
            + self.token * tokens
            + self.context_token * context
            + self.attention_pair * pairs
            + self.swapped_block * swapped
        )

    def decode_ps(self, num_sequences: int, context: int, count: int) -> list[int]:
        fixed = self.step + self.token * num_sequences
        return [
            step_ps(fixed + self.context_token * read + self.attention_pair * read)
            for read in range(context, context + count * num_sequences, num_sequences)
        ]

    @classmethod
    def read(cls, path: Path) -> "LinearTiming":
        """Reads `{"seconds": {"step": ..., "token": ..., ...}}`; InputError when it is anything else."""
        try:
            costs: Any = json.loads(path.read_text(encoding="utf-8"))["seconds"]
            timing = cls(**{name: float(cost) for name, cost in costs.items()})
        except OSError as error:
            raise InputError(
                f"timing {path}: {error.strerror}; known are unit, roofline, or a timing FILE"
            ) from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            names = ", ".join(cls.__slots__)
            raise InputError(
                f'timing {path}: expected {{"seconds": {{...}}}} with costs in seconds among {names}'
            ) from error
        for name in cls.__slots__:
            if not 0 <= (cost := getattr(timing, name)) < math.inf:
                raise InputError(f"timing {path}: seconds.{name} is {cost}; must be finite and at least 0")
        if not timing.step > 0:
            raise InputError(f"timing {path}: seconds.step is {timing.step}; a step must take more than 0 s")
        return timing


def make_timing(config: Config) -> TimingModel:
    """The timing model that `config.timing` names."""
    if config.timing == "unit":
        return UnitTiming()
    if config.timing == "roofline":
        return RooflineTiming(config.spec, get_hardware(config.hardware), config.kv_dtype, config.block_size)
    return LinearTiming.read(Path(config.timing))
