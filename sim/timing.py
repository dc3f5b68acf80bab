"""How long a step takes, modelled. Every time that comes from here is labelled `modelled`."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from sim.batch import Batch
from sim.clock import MAX_STEP_S
from sim.config import Config
from sim.errors import InputError
from sim.hardware import Hardware, get_hardware
from sim.models import ModelSpec, parse_rate
from sim.parallel import AllReduce


class TimingModel(Protocol):
    """Says how long a batch takes, in seconds."""

    def seconds(self, batch: Batch) -> float: ...


class UnitTiming:
    """Every step lasts exactly one second: for worked examples and for counting steps."""

    def seconds(self, batch: Batch) -> float:
        return 1.0


@dataclass(frozen=True, slots=True)
class RooflineTiming:
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

    def seconds(self, batch: Batch) -> float:
        spec, device = self.spec, self.hardware
        kv_bytes = spec.kv_bytes_per_token(self.kv_dtype)
        attention = 4 * spec.num_layers * spec.num_heads * spec.head_dim * batch.num_attention_pairs
        flops = 2 * spec.num_parameters * batch.num_tokens + attention
        read = spec.weights_bytes() + kv_bytes * (batch.num_context_tokens + batch.num_tokens)
        step = max(flops / device.flops_per_s, read / device.bandwidth_bytes_per_s)
        swapped = kv_bytes * self.block_size * batch.num_swapped_blocks / self.link
        num_copied = batch.num_copied_tokens + batch.num_moved_tokens
        copied = 2 * kv_bytes * num_copied / device.bandwidth_bytes_per_s
        return step + swapped + copied

    @property
    def link(self) -> int:
        """Bytes per second between device and host, one direction."""
        return self.hardware.link_bytes_per_s if self.link_bytes_per_s is None else self.link_bytes_per_s


@dataclass(frozen=True, slots=True)
class ParallelTiming:
    """Every rank does its share at once (`rank`), then they add up what they have (`all_reduce`)."""

    rank: RooflineTiming
    all_reduce: AllReduce

    def seconds(self, batch: Batch) -> float:
        return self.rank.seconds(batch) + self.all_reduce.seconds(batch)


@dataclass(frozen=True, slots=True)
class LinearTiming:
    """A sum of costs, read from a file: seconds per step, token, context token, pair, swapped block, and
    token that is copied or moved."""

    step: float = 0.0
    token: float = 0.0
    context_token: float = 0.0
    attention_pair: float = 0.0
    swapped_block: float = 0.0
    copied_token: float = 0.0

    def seconds(self, batch: Batch) -> float:
        return (
            self.step
            + self.token * batch.num_tokens
            + self.context_token * batch.num_context_tokens
            + self.attention_pair * batch.num_attention_pairs
            + self.swapped_block * batch.num_swapped_blocks
            + self.copied_token * (batch.num_copied_tokens + batch.num_moved_tokens)
        )

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
            if not 0 <= (cost := getattr(timing, name)) <= MAX_STEP_S:
                raise InputError(
                    f"timing {path}: seconds.{name} is {cost}; must be from 0 to {MAX_STEP_S} (46 days)"
                )
        if not timing.step > 0:
            raise InputError(f"timing {path}: seconds.step is {timing.step}; a step must take more than 0 s")
        return timing


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
    return LinearTiming.read(Path(config.timing))
