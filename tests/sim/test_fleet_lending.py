"""Free blocks on loan: they spare preemptions, cost time on the link, and all come home."""

from random import Random

import pytest

import sim.fleet.run
from sim import Config, simulate
from sim.events import Kind, NullLog
from sim.fleet import Fleet, FleetRun, simulate_fleet
from sim.fleet.lending import BorrowingAllocator, LendingPool, Market
from sim.fleet.replica import Replica
from sim.hardware import HARDWARE
from sim.request import SequenceGroup
from tests.making import random_rows, requests

LENDING = Fleet(replicas=2, borrow=True)
# to replica 0: r0 and r2, which come to need 4 blocks of 4 each; to replica 1: r1, which is gone after a step
TIGHT = requests((8, 8), (1, 1), (8, 8))
TWO_OF_FOUR = Config(pool_blocks=4, block_size=4, timing="unit", max_len=64)


def test_blocks_of_an_idle_neighbour_spare_preemptions():
    assert simulate_fleet(TIGHT, TWO_OF_FOUR, Fleet(replicas=2)).report()["preemptions"] == 1
    run = simulate_fleet(TIGHT, TWO_OF_FOUR, LENDING, check=True)
    report = run.report()
    assert report["preemptions"] == 0
    assert report["loans"] == {"blocks": 4, "peak_blocks": 4}
    assert run.runs[0].num_steps == 8


def test_a_loan_is_told_in_the_log_of_the_lender():
    events = simulate_fleet(TIGHT, TWO_OF_FOUR, LENDING).runs[1].events
    loans = [event for event in events if event.request is None and event.kind is not Kind.STEP]
    assert [event.kind for event in loans] == [Kind.ALLOC] * 4 + [Kind.FREE]
    assert loans[0].why == "1 free blocks lent to replica 0, where r0 needs 1 blocks and 0 are free"
    assert loans[-1].why == "4 free blocks come back from replica 0"
    assert loans[-1].changes["replica"] == 0


def test_the_log_of_a_borrower_shows_which_blocks_are_not_its_own():
    run = simulate_fleet(TIGHT, TWO_OF_FOUR, LENDING).runs[0]
    tables = run.at(8).block_tables
    borrowed = [block for table in tables.values() for block in table if block >= 4]
    assert sorted(borrowed) == [8, 9, 10, 11]  # 4 x (1 + replica 1) + 0 to 3


def test_who_has_requests_waiting_lends_nothing():
    # replica 1 runs r1 and has 2 free blocks, until r3 waits there, for which they are too few
    rows = [(8, 8), (8, 6), (8, 8), (12, 2)]
    assert simulate_fleet(requests(*rows[:3]), TWO_OF_FOUR, LENDING).num_loans > 0
    assert simulate_fleet(requests(*rows), TWO_OF_FOUR, LENDING).num_loans == 0


def test_borrowed_tokens_cross_the_link():
    config = Config(pool_blocks=4, block_size=4, max_len=64, model="llama-3-8b", hardware="h100")
    with_loans = simulate_fleet(TIGHT, config, LENDING).runs[0]
    roomy = simulate(with_loans.trace, Config(**{**dials(config), "pool_blocks": 100}))
    # r0 and r2 each write positions 8 to 14; blocks of positions 8 to 11 and 12 to 14 are borrowed
    num_tokens = 0
    for stored in range(9, 16):
        num_tokens += 2 * ((stored - 8) + 1)  # read up to the new one, which is written too
    link = HARDWARE["h100"].peer_bytes_per_s
    assert with_loans.time_s - roomy.time_s == pytest.approx(num_tokens * 131_072 / link, rel=1e-6)


def dials(config: Config) -> dict[str, object]:
    names = ("block_size", "max_len", "model", "hardware")
    return {name: getattr(config, name) for name in names}


def test_only_positions_in_borrowed_blocks_count():
    allocator = BorrowingAllocator(TWO_OF_FOUR, NullLog(), 0, Market(2))
    sequence = SequenceGroup(TIGHT.requests[0], 0).sequences[0]
    allocator.tables[sequence] = [2, 9, 3]
    allocator.pool.borrowed = {9}
    assert allocator.num_borrowed_tokens(sequence, 0, 12) == 4
    assert allocator.num_borrowed_tokens(sequence, 0, 6) == 2
    assert allocator.num_borrowed_tokens(sequence, 5, 6) == 1
    assert allocator.num_borrowed_tokens(sequence, 8, 12) == 0


def test_a_pool_lends_what_it_would_use_last_and_takes_it_back_unchanged():
    pool = LendingPool(6, 2)
    before = list(pool._fresh)
    assert pool.lend(2) == [5, 4]
    assert pool.num_free == 4
    pool.take_back([5, 4])
    assert list(pool._fresh) == before
    assert not pool.lent


@pytest.mark.parametrize("seed", range(80))
def test_no_slot_is_lost_or_doubled_and_every_loan_comes_home(seed: int, monkeypatch: pytest.MonkeyPatch):
    random = Random(seed)
    chunked = random.random() < 0.5
    config = Config(
        block_size=random.choice((1, 2, 4, 8)),
        pool_tokens=random.randint(64, 120),
        max_len=random.randint(60, 64),
        max_seqs=random.choice((3, 8, 100)),
        watermark=random.choice((0.0, 0.1)),
        preempt=random.choice(("recompute", "swap")),
        chunked_prefill=chunked,
        max_batch_tokens=16 if chunked else 100,
        timing=random.choice(("unit", "roofline")),
    )
    trace = requests(*random_rows(random, 30, span_s=random.choice((5, 60))))
    fleet = Fleet(replicas=random.randint(2, 4), router="least-tokens", borrow=True)
    replicas: list[Replica] = []

    class Watched(Replica):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            replicas.append(self)

    monkeypatch.setattr(sim.fleet.run, "Replica", Watched)

    def on_step(row, num_ended):
        pools = [replica.server.allocator.num_slots for replica in replicas]
        assert sum(pools) == fleet.replicas * config.num_pool_blocks * config.block_size

    run = simulate_fleet(trace, config, fleet, check=True, on_step=on_step)
    check_all_home(run, replicas)


def check_all_home(run: FleetRun, replicas: list[Replica]) -> None:
    report = run.report()
    assert report["requests"]["unfinished"] == 0
    for replica in replicas:
        allocator = replica.server.allocator
        assert isinstance(allocator, BorrowingAllocator)
        assert not allocator.pool.lent
        assert not allocator.pool.borrowed
        assert allocator.num_free_slots == run.config.num_pool_blocks * run.config.block_size
