"""Decode steps recorded once and replayed: one CUDA graph for each bucket of batch sizes.

A decode step of a small model is a few hundred kernels, each shorter than it takes Python to launch it. A
graph launches all of them at once, but with the addresses and shapes that it was recorded with. So a step's
numbers go into buffers that never move, and the batch is padded to the bucket:

    bucket       1, 2, 4, 8, then multiples of 8: the smallest that holds the batch; and powers of two of
                 tokens from 1024 on, of which the smallest holds the longest sequence
    padding      token 0 at position 0, length 0 and slot -1: kernels write nothing for it and give zeros

A step with prompts, with drafts, or of heavy hitters (whose tokens are dropped one by one) runs as it is.
"""

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from engine.attend import StepAttend
from engine.flat import FlatBatch, Span
from engine.model import Attend, LlamaModel
from sim.errors import InputError, unknown_name

CHOICES = ("auto", "on", "off")
WARM_UP_RUNS = 2  # before recording: kernels are compiled and libraries take their workspace


class Graph(Protocol):
    """A recorded function of buffers."""

    def replay(self) -> Tensor:
        """Runs it on what the buffers hold now. The next replay overwrites the result."""
        ...


Record = Callable[[Callable[[], Tensor]], Graph]


class CudaGraph:
    """Recorded by `torch.cuda.graph`. The runs before it write what the step writes, so they do no harm."""

    def __init__(self, run: Callable[[], Tensor]) -> None:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP_RUNS):
                run()
        torch.cuda.current_stream().wait_stream(stream)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._result = run()

    def replay(self) -> Tensor:
        """See `Graph`."""
        self._graph.replay()
        return self._result


class Bucket:
    """Buffers of one bucket, filled with padding, and the graph over them once it is recorded."""

    def __init__(self, size: int, like: StepAttend) -> None:
        device, width = like.slots.device, like.address.shape[1:]
        numbers = torch.zeros((2, size), dtype=torch.int64, device=device)
        index = torch.arange(size, device=device)
        lengths = torch.zeros(size, dtype=torch.int32, device=device)
        span = Span(slice(size), slice(size))
        self.batch = FlatBatch(
            [], size, numbers[0], numbers[1], index, index, lengths, index, [span], like.reach
        )
        self.slots = torch.full((size,), -1, dtype=torch.int64, device=device)
        self.address = torch.zeros((size, *width), dtype=like.address.dtype, device=device)
        self.graph: Graph | None = None

    def fill(self, batch: FlatBatch, kv: StepAttend) -> None:
        """Puts a step in front, and padding behind it."""
        n = batch.num_decodes
        ours = self.batch
        for buffer, numbers, padding in (
            (ours.token_ids, batch.token_ids, 0),
            (ours.positions, batch.positions, 0),
            (ours.seq_lens, batch.seq_lens, 0),
            (self.slots, kv.slots, -1),
        ):
            buffer[:n] = numbers
            buffer[n:] = padding
        self.address[:n] = kv.address  # of padding nothing is read


class DecodeGraphs:
    """Forward passes of one model over one pool, recorded where that is possible."""

    def __init__(self, model: LlamaModel, record: Record) -> None:
        self._model = model
        self._record = record
        self._buckets: dict[tuple[int, int], Bucket] = {}

    @property
    def num_recorded(self) -> int:
        """Graphs that there are."""
        return len(self._buckets)

    def forward(self, batch: FlatBatch, kv: Attend) -> Tensor:
        """As `LlamaModel.forward`; the logits of a recorded step last until the next step."""
        if not is_recordable(batch, kv):
            return self._model.forward(batch.token_ids, batch.positions, kv, batch.emitting)
        assert isinstance(kv, StepAttend)
        size = (bucket_of(batch.num_decodes), kv.reach)
        if size not in self._buckets:
            self._buckets[size] = Bucket(size[0], kv)
        bucket = self._buckets[size]
        bucket.fill(batch, kv)
        if bucket.graph is None:
            bucket.graph = self._record(self._step(bucket, kv))
        return bucket.graph.replay()[: batch.num_decodes]

    def _step(self, bucket: Bucket, kv: StepAttend) -> Callable[[], Tensor]:
        over = kv.over

        def run() -> Tensor:
            ours = bucket.batch
            attend = over(ours, bucket.slots, bucket.address)
            return self._model.forward(ours.token_ids, ours.positions, attend, ours.emitting)

        return run


def bucket_of(num_decodes: int) -> int:
    """The smallest bucket that holds so many sequences: never twice as many, never more than 7 too many."""
    return min(8, 1 << (num_decodes - 1).bit_length()) if num_decodes <= 8 else -(-num_decodes // 8) * 8


def is_recordable(batch: FlatBatch, kv: Attend) -> bool:
    """Whether the step is nothing but decodes, over a pool, and reads by lengths and tables alone."""
    is_pure = batch.num_decodes == len(batch.chunks) == len(batch.emitting)
    return is_pure and isinstance(kv, StepAttend) and not kv.has_dropped


def make_graphs(choice: str, model: LlamaModel, backend: str) -> DecodeGraphs | None:
    """By `--graphs`: on, off, or auto, which is on where it can be. InputError for `on` where it cannot."""
    if choice not in CHOICES:
        raise unknown_name("graphs", choice, CHOICES)
    reason = why_not(model, backend)
    if choice == "on" and reason:
        raise InputError(f"--graphs on: {reason}; use --graphs auto")
    return None if choice == "off" or reason else DecodeGraphs(model, CudaGraph)


def why_not(model: LlamaModel, backend: str) -> str | None:
    """What keeps steps from being recorded, or None."""
    if model.device.type != "cuda":
        return f"only a CUDA device records graphs, and the model is on {model.device.type}"
    if backend not in ("auto", "triton"):
        return f"backend {backend} looks at lengths on the host in every step, which no graph records"
    if model.ranks.size > 1:
        return f"the model is shared by {model.ranks.size} ranks, whose sums are not recorded"
    return None
