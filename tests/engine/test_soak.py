"""The soak of bench/soak.py with real tensors: every slot is free in the end, and no table has grown."""

from random import Random

import pytest
import torch

from bench.soak import LEGS, burst
from engine.agreement import agreement
from engine.measure import execute
from engine.model import LlamaModel
from engine.pool import PagedPool
from engine.sentinel import is_written
from engine.setup import make_model, make_pool
from engine.snapshot import EMPTY
from sim import Trace, simulate
from sim.events import Kind
from sim.timing import make_timing
from tests.engine.running import tiny

CPU = torch.device("cpu")
SHARE = 60  # requests of a burst
BURSTS = 3
PAGED = {name: dials for name, dials in LEGS.items() if dials.get("allocator", "paged") == "paged"}
WANTED = {  # what each leg must have gone through
    "recompute, prefix cache": {Kind.PREEMPT, Kind.HIT, Kind.EVICT, Kind.COPY, Kind.FORK},
    "swap, sharing": {Kind.PREEMPT, Kind.SWAP_OUT, Kind.SWAP_IN, Kind.COPY, Kind.FORK},
    "swap, radix cache, chunks": {Kind.PREEMPT, Kind.SWAP_OUT, Kind.SWAP_IN, Kind.HIT, Kind.EVICT},
}


@pytest.fixture(scope="module")
def model() -> LlamaModel:
    return make_model(tiny(), CPU)


def bursts(name: str) -> list[Trace]:
    """Traces that leave the pool empty; a cache does not, so there all bursts are one trace."""
    random = Random(name)
    parts = [burst(random, number, 100.0 * number, "paged")[:SHARE] for number in range(BURSTS)]
    if PAGED[name].get("prefix_cache", "off") != "off":
        parts = [[request for part in parts for request in part]]
    return [Trace("burst", tuple(part)) for part in parts]


def test_all_legs_are_soaked():
    assert PAGED.keys() == WANTED.keys()


@pytest.mark.parametrize("name", WANTED)
def test_bursts_leave_every_slot_free_and_nothing_in_the_tables(name: str, model: LlamaModel):
    config = tiny(**PAGED[name])
    pool = make_pool(config, CPU)
    assert isinstance(pool, PagedPool)
    places = [tensor.data_ptr() for tensor in (pool.storage, pool.table.tensor, pool.host.pool)]
    shapes = [tensor.shape for tensor in (pool.storage, pool.table.tensor, pool.host.pool)]
    seen: set[Kind] = set()
    for trace in bursts(name):
        run = execute(trace, config, model, pool, backend="cpu", timing=make_timing(config))
        seen |= {event.kind for event in run.events}
        assert agreement(simulate(trace, config), run)["first_difference"] is None
        assert run.free_at_end == config.num_slots
        assert run.report()["requests"]["unfinished"] == 0
        assert not pool.rows and not pool.table.blocks and not pool.table._changed
        assert len(pool.table._free) == len(set(pool.table._free)) == len(pool.table.tensor)
        assert (pool.table.tensor == EMPTY).all()
        assert not pool._shareable
        written, torn = pool.scan()
        assert not torn.any() and not (written & ~pool.cached_slots()).any()
        assert not is_written(pool.host.pool).any()
    assert seen >= WANTED[name]
    assert places == [tensor.data_ptr() for tensor in (pool.storage, pool.table.tensor, pool.host.pool)]
    assert shapes == [tensor.shape for tensor in (pool.storage, pool.table.tensor, pool.host.pool)]
