"""Figures 18b and 19, both parts: the size of a block."""

from collections.abc import Iterator

from app.paper.point import Point
from app.paper.published import FIGURE_12, FIGURE_18B, FIGURE_19_RECOMPUTE, FIGURE_19_SWAP, FIGURE_19B
from app.paper.rates import basic, rate_of
from app.paper.servers import normalized_latency
from sim import Config, Trace
from sim.batch import Batch, Chunk
from sim.config import PAPER_POOL_TOKENS
from sim.hardware import get_hardware
from sim.models import get_model
from sim.request import Request, SequenceGroup
from sim.timing import make_timing

CONTEXT = 512  # tokens of the request that is preempted; the paper does not print it
RATES = {"sharegpt": 1.75, "alpaca": 28.1}  # requests a second of the paper


def load(lengths: str) -> Trace:
    """The same share of the load that blocks of 16 keep up with as in the paper."""
    share = RATES[lengths] / FIGURE_12[lengths]["paged"]
    return basic(lengths, share * rate_of(lengths, "paged"))


def latency(trace: Trace, block_size: int, **dials: str) -> float:
    """Seconds a token, in the paper's pool cut into such blocks."""
    pool = PAPER_POOL_TOKENS // block_size * block_size
    return normalized_latency(trace, block_size=block_size, pool_tokens=pool, **dials)


def figure_18b() -> Iterator[Point]:
    """Latency by block size."""
    for lengths, bars in FIGURE_18B.items():
        trace = load(lengths)
        for size, paper in bars.items():
            yield Point("18b", f"{lengths}, blocks of {size}", "s/token", paper, latency(trace, size))


def figure_19() -> Iterator[Point]:
    """Milliseconds to give up a request and bring it back."""
    config = Config()
    token = get_model(config.model).kv_bytes_per_token(config.kv_dtype)
    group = SequenceGroup(Request(id="r", arrival_s=0.0, prompt=CONTEXT, output=1, max_tokens=1), 0)
    batch = Batch(1, 0.0)
    batch.add(Chunk(group, group.sequences[0], 0, CONTEXT, is_prefill=True, emits=True))
    recompute = 1e3 * make_timing(config).seconds(batch)
    yield Point("19", "recomputation, any block size", "ms", FIGURE_19_RECOMPUTE, recompute)
    link = get_hardware(config.hardware).link_bytes_per_s
    for size, paper in FIGURE_19_SWAP.items():
        num_bytes = 2 * -(-CONTEXT // size) * size * token
        yield Point("19", f"swap, blocks of {size}", "ms", paper, 1e3 * num_bytes / link)


def figure_19b() -> Iterator[Point]:
    """Latency by block size, with either way to give up a request; ShareGPT lengths."""
    trace = load("sharegpt")
    for size, bars in FIGURE_19B.items():
        for preempt, paper in zip(("recompute", "swap"), bars, strict=True):
            ours = latency(trace, size, preempt=preempt)
            yield Point("19b", f"{preempt}, blocks of {size}", "s/token", paper, ours)
