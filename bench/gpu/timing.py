"""Seconds of a call: replays of one CUDA graph, over enough different data that no cache holds it."""

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, NamedTuple

import torch

COLD_BYTES = 512 * 2**20  # more than an L2 cache of any GPU
REPLAYS = 5
Call = Callable[[], Any]


class Timed(NamedTuple):
    """Seconds of one call, the median of `samples`; whether a graph was replayed, or why not."""

    seconds: float
    samples: list[float]
    graph: str


def num_sets(bytes_of_one: int, device: torch.device) -> int:
    """How many data sets to go through by turns, so that each is out of the cache when its turn comes."""
    return 1 if device.type == "cpu" else max(2, -(-COLD_BYTES // bytes_of_one))


def timed(calls: Sequence[Call], device: torch.device, *, min_s: float = 0.02) -> Timed:
    """All calls one after the other, as often as takes `min_s`; each sample is one replay of them all."""
    for call in calls:  # compiles, and warms the allocator up
        call()
    if device.type == "cpu":
        return timed_on_cpu(calls)
    torch.cuda.synchronize()
    once = by_events(lambda: [call() for call in calls])
    rounds = max(1, min(50, int(min_s / max(once, 1e-6))))
    try:
        replay, graph = captured(calls, rounds), "replayed"
    except RuntimeError as error:  # what cannot be captured is timed as it is, and says so
        torch.cuda.synchronize()
        replay, graph = (lambda: [call() for _ in range(rounds) for call in calls]), f"eager: {error}"[:200]
    replay()
    samples = [by_events(replay) / (rounds * len(calls)) for _ in range(REPLAYS)]
    return Timed(median(samples), samples, graph)


def captured(calls: Sequence[Call], rounds: int) -> Call:
    """A CUDA graph of all calls, `rounds` times; the function that replays it."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(rounds):
            for call in calls:
                call()
    return graph.replay


def by_events(call: Call) -> float:
    """Seconds between two events on the GPU's stream."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    call()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1e3


def timed_on_cpu(calls: Sequence[Call]) -> Timed:
    """For --smoke, and for transfers that wait for their end."""
    samples: list[float] = []
    for call in calls:
        start = time.perf_counter()
        call()
        samples.append(time.perf_counter() - start)
    return Timed(median(samples), samples, "no GPU")


def by_the_clock(call: Call, repeats: int) -> Timed:
    """A call that ends only when its data has arrived."""
    call()
    samples: list[float] = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        samples.append(time.perf_counter() - start)
    return Timed(median(samples), samples, "host clock")
