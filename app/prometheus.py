"""A run as Prometheus metrics: what a server like it would have shown on `/metrics`, step by step.

OpenMetrics 1.0, under vLLM's names where it has the metric: a dashboard for vLLM shows a simulated run, after

    promtool tsdb create-blocks-from openmetrics run.prom data/

Gauges have a sample a step, counters and histograms one at the end; times are seconds on the run's clock.
Names, buckets and meaning are those of vllm/v1/metrics/loggers.py, seen in 0.32. What vLLM does not have is
called `pagelab:`, also what only its first version had (`num_requests_swapped`).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from sim import Run
from sim.ledger import CLASSES
from sim.report import latencies

SECONDS_TO_FIRST = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0,
    80.0, 160.0, 640.0, 2560.0,
)  # fmt: skip
SECONDS_PER_TOKEN = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0
)  # fmt: skip
SECONDS_TO_END = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0,
    960.0, 1920.0, 7680.0,
)  # fmt: skip
STEP_TOKENS = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)

Sample = tuple[str, dict[str, str], Any, float]  # suffix, labels beside the run's own, value, seconds


@dataclass(frozen=True, slots=True)
class Metric:
    """One family: its name without the suffixes of its samples."""

    name: str
    kind: str  # gauge | counter | histogram
    help: str
    samples: Callable[[Run], Iterator[Sample]]


def write_prometheus(named: Sequence[tuple[str, Run]], out: BinaryIO) -> None:
    """All runs in one file, told apart by labels; a server's name is its `engine`, as in vLLM."""
    for metric in METRICS:
        out.write(f"# TYPE {metric.name} {metric.kind}\n# HELP {metric.name} {metric.help}\n".encode())
        for name, run in named:
            config = run.config
            own = {"model_name": config.model, "engine": name, "allocator": config.allocator}
            own["source"] = run.source
            for suffix, labels, value, time in metric.samples(run):
                inner = ",".join(f'{key}="{_escaped(text)}"' for key, text in (own | labels).items())
                out.write(f"{metric.name}{suffix}{{{inner}}} {value} {time:.3f}\n".encode())
    out.write(b"# EOF\n")


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def gauge(name: str, help: str, value: Callable[[Run], NDArray[Any]], **labels: str) -> Metric:
    """A sample a step; of steps that end in one millisecond, Prometheus' finest, only the last."""

    def samples(run: Run) -> Iterator[Sample]:
        if not run.num_steps:
            return
        milliseconds = np.rint(run.series.column("time") * 1000).astype(np.int64)
        is_last = np.append(milliseconds[1:] != milliseconds[:-1], True)
        rows = zip(value(run)[is_last].tolist(), milliseconds[is_last].tolist(), strict=True)
        yield from (("", labels, number, ms / 1000) for number, ms in rows)

    return Metric(name, "gauge", help, samples)


def counter(name: str, help: str, value: Callable[[Run], int], **labels: str) -> Metric:
    """One sample, at the end of the run."""
    return Metric(name, "counter", help, lambda run: iter((("_total", labels, value(run), run.time_s),)))


def histogram(
    name: str, help: str, buckets: Sequence[float], values: Callable[[Run], NDArray[Any]]
) -> Metric:
    """How many observations lie at or below each bound, at the end of the run."""

    def samples(run: Run) -> Iterator[Sample]:
        observed = np.sort(values(run))
        for bound in (*map(float, buckets), np.inf):
            label = "+Inf" if bound == np.inf else repr(bound)
            yield "_bucket", {"le": label}, int(np.searchsorted(observed, bound, "right")), run.time_s
        yield "_count", {}, len(observed), run.time_s
        yield "_sum", {}, float(observed.sum()), run.time_s

    return Metric(name, "histogram", help, samples)


def usage(run: Run) -> NDArray[np.float64]:
    """As vLLM counts it: a cached block that nobody holds is free."""
    free = sum(run.series.column(name) for name in ("free", "external", "cached"))
    return 1.0 - free / run.series.column("pool")


def slots_of(name: str) -> Callable[[Run], NDArray[np.int64]]:
    """A column of the series."""
    return lambda run: run.series.column(name)


def admitted_tokens(run: Run) -> int:
    """Prompt tokens of requests that were admitted, whether computed or found."""
    outcomes = run.outcomes
    return sum(r.prompt for r, runs in zip(outcomes.requests, outcomes.prefills, strict=True) if runs)


def seconds(which: str) -> Callable[[Run], NDArray[np.float64]]:
    """One of `latencies`, of finished requests."""

    def of_finished(run: Run) -> NDArray[np.float64]:
        outcomes, done = run.outcomes, run.outcomes.is_finished
        finished = [outcomes.requests[place] for place in np.flatnonzero(done).tolist()]
        return latencies(finished, outcomes.first_token_s[done], outcomes.finish_s[done])[which]

    return of_finished


METRICS = (
    gauge("vllm:num_requests_running", "Requests in the running queue.", slots_of("running")),
    gauge("vllm:num_requests_waiting", "Requests that wait to be admitted.", slots_of("waiting")),
    gauge("pagelab:num_requests_swapped", "Requests whose KV is in host memory.", slots_of("swapped")),
    gauge("vllm:kv_cache_usage_perc", "Share of the KV pool that is held; 1 is all of it.", usage),
    *(
        gauge(f"pagelab:kv_slots_{name}", f"Slots of the pool in the class {name}.", slots_of(name))
        for name in CLASSES
    ),
    counter("vllm:num_preemptions", "Preemptions.", lambda run: run.num_preemptions),
    counter("vllm:prompt_tokens", "Prompt tokens of admitted requests.", admitted_tokens),
    counter("vllm:generation_tokens", "Tokens emitted.", lambda run: sum(run.outcomes.emitted)),
    counter(
        "vllm:prefix_cache_queries",
        "Prompt tokens that were looked up.",
        lambda run: 0 if run.config.prefix_cache == "off" else admitted_tokens(run),
    ),
    counter(
        "vllm:prefix_cache_hits", "Prompt tokens that were found.", lambda run: sum(run.outcomes.hit_tokens)
    ),
    counter(
        "vllm:request_success",
        "Requests that finished.",
        lambda run: int(run.outcomes.is_finished.sum()),
        finished_reason="length",
    ),
    counter("pagelab:requests_rejected", "Rejected requests.", lambda run: len(run.outcomes.reject_reasons)),
    histogram("vllm:iteration_tokens_total", "Tokens of a step.", STEP_TOKENS, slots_of("tokens")),
    histogram(
        "vllm:time_to_first_token_seconds", "Arrival to first token.", SECONDS_TO_FIRST, seconds("ttft")
    ),
    histogram(
        "vllm:request_time_per_output_token_seconds",
        "Mean time of a token after the first, by request.",
        SECONDS_PER_TOKEN,
        seconds("tpot"),
    ),
    histogram("vllm:e2e_request_latency_seconds", "Arrival to last token.", SECONDS_TO_END, seconds("e2e")),
)
