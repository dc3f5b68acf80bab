"""Figures 18b and 19: the size of a block."""

from collections.abc import Iterator

from app.paper.point import Point
from app.paper.published import FIGURE_12, FIGURE_18B, FIGURE_19_RECOMPUTE, FIGURE_19_SWAP
from app.paper.rates import basic, rate_of
from app.paper.servers import normalized_latency
from sim import Config
from sim.batch import Batch, Chunk
from sim.hardware import get_hardware
from sim.models import get_model
from sim.request import Request, SequenceGroup
from sim.timing import make_timing

CONTEXT = 512  # tokens of the request that is preempted; the paper does not print it


def figure_18b() -> Iterator[Point]:
    """Latency by block size, at the same share of the load that blocks of 16 keep up with as in the paper."""
    rates = {"sharegpt": 1.75, "alpaca": 28.1}
    for lengths, bars in FIGURE_18B.items():
        share = rates[lengths] / FIGURE_12[lengths]["paged"]
        trace = basic(lengths, share * rate_of(lengths, "paged"))
        for size, paper in bars.items():
            ours = normalized_latency(trace, block_size=size, pool_tokens=15_728 // size * size)
            yield Point("18b", f"{lengths}, blocks of {size}", "s/token", paper, ours)


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
