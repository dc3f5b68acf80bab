"""How long a step takes, modelled. Every time that comes from here is labelled `modelled`."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from sim.additive_timing import AdditiveTiming
from sim.clock import MAX_STEP_S, PS_PER_S, step_ps
from sim.closed_timing import ClosedTiming, TimingModel
from sim.config import Config
from sim.hardware import Hardware, get_hardware
from sim.models import ModelSpec, parse_rate
from sim.parallel import AllReduce


class UnitTiming(ClosedTiming):
    """Every step lasts exactly one second: for worked examples and for counting steps."""

    def cost(
        self, tokens: Any, sequences: Any, context: Any, pairs: Any, swapped: Any = 0, copied: Any = 0
    ) -> Any:
        return 1.0 + 0.0 * context

    def decode_ps(self, num_sequences: int, context: int, count: int) -> list[int]:
        return [PS_PER_S] * count


@dataclass(frozen=True)
class RooflineTiming(ClosedTiming):
    """The longer of computing and reading memory, at the datasheet's peaks: a floor, not a forecast.

    flops = 2 x parameters x tokens + 4 x layers x heads x head_dim x (query, key) pairs
    bytes = weights + KV bytes per token x (tokens read by attention + tokens written)

    Before the step, swapped blocks cross the host link, and copied or moved tokens are read and written once.
    Under a window a query reads no more than the window and the sinks, so context and pairs stop growing.
    Source: Williams, Waterman, Patterson, "Roofline", CACM 2009, on the decoder's matrix products.
    """

    spec: ModelSpec
    hardware: Hardware
    kv_dtype: str
    block_size: int
    link_bytes_per_s: int | None = None  # in place of the hardware's

    def cost(
        self, tokens: Any, sequences: Any, context: Any, pairs: Any, swapped: Any = 0, copied: Any = 0
    ) -> Any:
        flops_per_token, flops_per_pair, flops_per_s, weights_bytes, kv_bytes, bytes_per_s = self._rates
        computing = (flops_per_token * tokens + flops_per_pair * pairs) / flops_per_s
        reading = (weights_bytes + kv_bytes * (context + tokens)) / bytes_per_s
        step = max(computing, reading) if isinstance(computing, float) else np.maximum(computing, reading)
        seconds_per_block, seconds_per_copy = self._transfers
        return step + seconds_per_block * swapped + seconds_per_copy * copied

    def decode_ps(self, num_sequences: int, context: int, count: int, more_s: float = 0.0) -> list[int]:
        """As of any closed timing; each step takes `more_s` seconds beside."""
        flops_per_token, flops_per_pair, flops_per_s, weights_bytes, kv_bytes, bytes_per_s = self._rates
        flops = flops_per_token * num_sequences
        steps: list[int] = []
        seconds = 0.0
        for read in range(context, context + count * num_sequences, num_sequences):
            computing = (flops + flops_per_pair * read) / flops_per_s
            reading = (weights_bytes + kv_bytes * (read + num_sequences)) / bytes_per_s
            seconds = (computing if computing > reading else reading) + more_s
            steps.append(round(seconds * PS_PER_S) or 1)
        if seconds > MAX_STEP_S:  # the last is the longest
            step_ps(seconds)  # says what is wrong
        return steps

    @cached_property
    def _rates(self) -> tuple[float, float, float, float, float, float]:
        """Flops of a token and of a pair, and flops per second; then the same of bytes.

        In floats, so that numbers and arrays are rounded alike even beyond 2^53.
        """
        spec, device = self.spec, self.hardware
        return (
            float(2 * spec.num_parameters),
            float(4 * spec.num_layers * spec.num_heads * spec.head_dim),
            float(device.flops_per_s),
            float(spec.weights_bytes()),
            float(spec.kv_bytes_per_token(self.kv_dtype)),
            float(device.bandwidth_bytes_per_s),
        )

    @cached_property
    def _transfers(self) -> tuple[float, float]:
        """Seconds for a swapped block and for a copied token."""
        kv_bytes = self.spec.kv_bytes_per_token(self.kv_dtype)
        return kv_bytes * self.block_size / self.link, 2 * kv_bytes / self.hardware.bandwidth_bytes_per_s

    @property
    def link(self) -> int:
        """Bytes per second between device and host, one direction."""
        return self.hardware.link_bytes_per_s if self.link_bytes_per_s is None else self.link_bytes_per_s


@dataclass(frozen=True)
class ParallelTiming(ClosedTiming):
    """Every rank does its share at once (`rank`), then they add up what they have (`all_reduce`)."""

    rank: RooflineTiming
    all_reduce: AllReduce

    def cost(
        self, tokens: Any, sequences: Any, context: Any, pairs: Any, swapped: Any = 0, copied: Any = 0
    ) -> Any:
        share = self.rank.cost(tokens, sequences, context, pairs, swapped, copied)
        return share + self.all_reduce.seconds(tokens)

    def decode_ps(self, num_sequences: int, context: int, count: int) -> list[int]:
        return self.rank.decode_ps(num_sequences, context, count, self.all_reduce.seconds(num_sequences))


def make_timing(config: Config) -> TimingModel:
    """The timing model that `config.timing` names."""
    if config.timing == "unit":
        return UnitTiming()
    if config.timing == "roofline":
        link = None if config.link is None else parse_rate(config.link)
        hardware = get_hardware(config.hardware)
        rank = RooflineTiming(config.rank_spec, hardware, config.kv_dtype, config.block_size, link)
        if config.tensor_parallel == 1:
            return rank
        return ParallelTiming(rank, AllReduce(config.spec, config.tensor_parallel, hardware))
    return AdditiveTiming.read(Path(config.timing)).made_for(config)
