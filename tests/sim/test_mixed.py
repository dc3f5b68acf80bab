"""`mixed`: small blocks that make up large ones, and what block tables take."""

from random import Random

import pytest

from sim import Config, Trace, simulate
from sim.alloc import TableShape
from sim.alloc.runs import FreshRuns, is_large
from sim.events import Kind
from tests.making import requests


def test_a_sequence_that_fills_a_run_in_order_has_a_large_block():
    config = Config(
        allocator="mixed", block_size=2, large_block_size=8, pool_blocks=12, max_len=24, timing="unit"
    )
    run = simulate(requests((5, 6), (3, 6), name="two"), config, check=True)
    first, last = run.at(1).block_tables, run.at(6).block_tables
    assert first == {"r0": [0, 1, 2], "r1": [4, 5]}  # each begins a run of four
    assert last == {"r0": [0, 1, 2, 3, 8], "r1": [4, 5, 6, 7]}
    assert is_large(last["r0"], 0, 4) and is_large(last["r1"], 0, 4)


def test_small_blocks_still_do_when_no_whole_run_is_left():
    fresh = FreshRuns(8, 4)
    first = fresh.take(1, 0, None)  # reserves run 0
    second = fresh.take(1, 0, None)  # reserves run 1
    assert (first, second) == ([0], [4])
    assert fresh.take(1, 0, None) == [1]  # breaks a reservation; both have three left
    assert fresh.take(2, 1, 4) == [5, 6]  # the other goes on in its own
    assert fresh.take(2, 1, 0) == [2, 3]  # the broken one goes on where it can
    assert not is_large([0, 2, 3], 0, 3)


def test_a_broken_reservation_is_the_one_with_most_left():
    fresh = FreshRuns(8, 4)
    fresh.take(3, 0, None)
    fresh.take(1, 0, None)
    assert fresh.take(1, 0, None) == [5]


def test_the_end_of_the_pool_that_is_too_short_for_a_run_serves_small_blocks_first():
    fresh = FreshRuns(6, 4)
    assert fresh.take(1, 1, None) == [4]
    assert fresh.take(1, 0, None) == [0]


def test_a_run_that_came_back_whole_can_be_a_large_block_again():
    fresh = FreshRuns(4, 4)
    blocks = fresh.take(3, 0, None)
    for block in reversed(blocks):
        fresh.put(block)
    assert fresh.take(4, 0, None) == [0, 1, 2, 3]


@pytest.mark.parametrize("seed", range(4))
def test_random_takes_and_puts_against_a_plain_set(seed):
    random = Random(seed)
    run_blocks, num_blocks = random.choice((2, 3, 4)), random.randint(1, 40)
    fresh, free = FreshRuns(num_blocks, run_blocks), set(range(num_blocks))
    tables: list[list[int]] = [[] for _ in range(5)]
    for _ in range(10_000):
        table = random.choice(tables)
        count = random.randint(1, 4)
        if random.random() < 0.55 and count <= len(free):
            for _ in range(count):
                place, after = len(table), table[-1] if table else None
                block = fresh.take(1, place, after)[0]
                assert block in free
                whole = [
                    r for r in range(num_blocks // run_blocks)
                    if free.issuperset(range(r * run_blocks, (r + 1) * run_blocks))
                ]  # fmt: skip
                others = free - {r * run_blocks + i for r in whole for i in range(run_blocks)}
                if (
                    place % run_blocks
                    and after is not None
                    and after + 1 in free
                    and (after + 1) % run_blocks
                ):
                    assert block == after + 1
                elif place % run_blocks == 0 and whole:
                    assert block % run_blocks == 0 and block // run_blocks in whole
                elif others:
                    assert block in others
                free.remove(block)
                table.append(block)
        else:
            for _ in range(random.choice((1, len(table), len(table)))):
                if table:
                    free.add(table[-1])
                    fresh.put(table.pop())
        assert len(fresh) == len(free)
    assert set(fresh) == free


def test_mixed_has_the_waste_of_small_blocks_and_finishes_when_paged_does():
    rows = [(random.randint(1, 40), random.randint(1, 30), i) for random in [Random(1)] for i in range(30)]
    runs = [
        simulate(requests(*rows, name="x"), Config(
            allocator=allocator, block_size=4, pool_tokens=300, max_len=80, timing="unit"
        ))
        for allocator in ("paged", "mixed")
    ]  # fmt: skip
    paged, mixed = [run.report() for run in runs]
    assert mixed["ledger"] == paged["ledger"]
    assert mixed["per_request"] == paged["per_request"]


# What tables take


def test_a_flat_table_has_room_for_the_longest_sequence_whatever_is_used():
    shape = TableShape(max_blocks=128)
    assert shape.bytes_of([[1], list(range(100))]) == 2 * 128 * 4


def test_a_two_level_table_has_a_directory_and_the_leaves_it_needs():
    shape = TableShape(max_blocks=1000, is_two_level=True)  # a directory of 16 entries
    assert shape.bytes_of([[]]) == 16 * 4
    assert shape.bytes_of([[7] * 64]) == (16 + 64) * 4
    assert shape.bytes_of([[7] * 65]) == (16 + 2 * 64) * 4


def test_a_large_block_needs_no_leaf():
    shape = TableShape(max_blocks=16, is_two_level=True, run_blocks=4)  # a directory of 4 entries
    assert shape.bytes_of([[4, 5, 6, 7]]) == 4 * 4
    assert shape.bytes_of([[4, 5, 6, 7, 12]]) == (4 + 4) * 4
    assert shape.bytes_of([[5, 6, 7, 8]]) == (4 + 4) * 4  # in order, but not one run


def test_the_report_has_the_largest_tables_of_the_run_and_their_share_of_the_pool():
    dials = {"pool_tokens": 1024, "block_size": 16, "max_len": 2048, "timing": "unit"}
    trace = requests((20, 3), (20, 3), name="two")
    flat, two = [simulate(trace, Config(**dials, table=table)).report() for table in ("flat", "two-level")]
    assert flat["table_bytes"] == 2 * 128 * 4
    assert two["table_bytes"] == 2 * (2 + 64) * 4
    assert flat["table_percent"] == pytest.approx(100 * 1024 / (1024 * 819_200))
    half = simulate(trace, Config(**dials, kv_dtype="int8")).report()
    assert half["table_percent"] == pytest.approx(100 * 1024 / (1024 * 2 * 40 * 40 * (128 + 4)))


# Quantized keys and values, wherever bytes become slots or seconds


def test_quantized_keys_and_values_give_more_slots_and_shorter_reads():
    """fp16 takes 256 bytes for a vector of llama-3-8b, int8 and fp8 take 128 + 4 for its scale."""
    dials = {"model": "llama-3-8b", "hardware": "a100-80gb", "memory": "24GiB", "max_len": 8192}
    wide, narrow = [Config(**dials, kv_dtype=dtype) for dtype in ("fp16", "fp8")]
    left = 24 * 2**30 - wide.spec.weights_bytes()
    assert (wide.num_pool_tokens, narrow.num_pool_tokens) == (left // 131_072, left // 67_584)
    assert Config(**dials, kv_dtype="int8").num_pool_tokens == narrow.num_pool_tokens
    trace = requests((4000, 50), name="one")
    slow, fast = [simulate(trace, config).series.column("duration")[1:] for config in (wide, narrow)]
    read = [(131_072 - 67_584) * (4000 + step + 1) / 2039e9 for step in range(1, 50)]
    assert (slow - fast).tolist() == pytest.approx(read, rel=1e-3)


def test_quantized_blocks_cross_the_host_link_sooner():
    dials = {"pool_blocks": 8, "preempt": "swap", "max_len": 128}
    rows = Trace("two", requests((48, 40), (48, 40)).requests)
    runs = [simulate(rows, Config(**dials, kv_dtype=dtype)) for dtype in ("fp16", "int8")]
    step = next(event.step for event in runs[0].events if event.kind is Kind.SWAP_OUT)
    wide, narrow = [run.series.column("duration")[step - 1] for run in runs]
    num_blocks = 4
    context = 64 + 1 + 1
    saved = (819_200 - 422_400) * (num_blocks * 16 / 32e9 + context / 1555e9)
    assert wide - narrow == pytest.approx(saved, rel=1e-2)
