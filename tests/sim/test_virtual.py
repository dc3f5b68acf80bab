"""`virtual`: pages of bytes, tokens that follow from the model, rounding and nothing else."""

import pytest

from sim import Config, InputError, Trace, simulate
from sim.alloc import GRANTED, Short, Usage, VirtualAllocator
from sim.events import EventLog, Kind
from sim.request import Request, SequenceGroup
from tests.making import requests


@pytest.mark.parametrize(
    ("model", "kv_dtype", "page_size", "tokens"),
    [
        ("llama-3-8b", "fp16", "64KiB", 32),  # 8 kv heads x 128 x 2 bytes = 2 KiB
        ("llama-3-8b", "fp16", "2MiB", 1024),
        ("llama-2-7b", "fp16", "2MiB", 256),  # 32 heads: 8 KiB
        ("llama-3-8b", "int8", "64KiB", 62),  # 8 x (128 + 4) = 1056 bytes; 64 bytes hold none
        ("opt-13b", "fp16", "64KiB", 6),
    ],
)
def test_tokens_of_a_page_follow_from_the_bytes_of_one_layers_keys(model, kv_dtype, page_size, tokens):
    config = Config(
        allocator="virtual", model=model, kv_dtype=kv_dtype, page_size=page_size, pool_tokens=100_000
    )
    assert config.page_tokens == config.slots_per_block == tokens


def test_the_pool_has_whole_page_groups_only():
    config = Config(allocator="virtual", model="llama-3-8b", page_size="64KiB", pool_tokens=1000)
    assert (config.num_pool_pages, config.num_slots) == (31, 992)
    # opt-13b: 6 tokens of 10 KiB leave 4 KiB of 64 unused, so fewer than 1000 / 6 pages fit
    config = Config(allocator="virtual", page_size="64KiB", pool_tokens=1000)
    assert config.num_pool_pages == 1000 * 819_200 // (80 * 65_536) == 156


def test_a_page_that_holds_no_token_is_refused():
    with pytest.raises(InputError, match=r"--page-size 4KiB with --model opt-13b.*10240 bytes"):
        Config(allocator="virtual", page_size="4KiB")
    with pytest.raises(InputError, match=r"smaller than one page of 204.*--page-size"):
        Config(allocator="virtual", pool_tokens=100)


def group_of(prompt: int, output: int = 20, n: int = 1) -> SequenceGroup:
    return SequenceGroup(
        Request(id="r0", arrival_s=0.0, prompt=prompt, output=output, max_tokens=output, n=n), 0
    )


def test_pages_are_mapped_when_their_first_token_is_due_and_all_come_back():
    allocator = VirtualAllocator(10, 8, 64, EventLog())
    group = group_of(17)
    assert allocator.admit(group, 17, keep_watermark=False) == GRANTED
    sequence = group.sequences[0]
    assert len(allocator.tables[sequence]) == 3
    sequence.stored = 17
    assert allocator.usage([group]) == Usage(live=17, reserved=7)
    assert allocator.grow(sequence, 7) == GRANTED
    assert len(allocator.tables[sequence]) == 3
    sequence.stored = 24
    assert allocator.grow(sequence, 1) == GRANTED
    assert len(allocator.tables[sequence]) == 4
    assert allocator.table_bytes() == 4 * 64 * 8
    allocator.release(group, "finished")
    allocator.check()
    assert allocator.num_free_slots == 80


def test_what_no_token_will_fill_is_rounding_never_internal():
    allocator = VirtualAllocator(10, 8, 64, EventLog())
    group = group_of(17, output=3)
    assert allocator.admit(group, 17, keep_watermark=False) == GRANTED
    group.sequences[0].stored = 17
    assert allocator.usage([group]) == Usage(live=17, reserved=2, rounding=5)


def test_a_chunk_maps_its_own_pages_but_the_whole_input_must_fit():
    allocator = VirtualAllocator(4, 8, 64, EventLog())
    assert allocator.admit(group_of(33), 8, keep_watermark=False) == Short(5, 4)
    group = group_of(32)
    assert allocator.admit(group, 8, keep_watermark=False) == GRANTED
    assert allocator.pages.num_free == 3
    group.sequences[0].stored = 8
    assert allocator.grow(group.sequences[0], 24) == GRANTED
    assert allocator.pages.num_free == 0


def test_samples_hold_pages_of_their_own_and_a_fork_copies_into_them():
    trace = Trace("n", (Request(id="r0", arrival_s=0.0, prompt=9, output=3, max_tokens=3, n=3),))
    config = Config(
        allocator="virtual", model="tiny", page_size="256B", pool_tokens=100, timing="unit"
    )  # pages of 4
    run = simulate(trace, config, check=True)
    assert run.at(1).block_tables == {"r0/0": [0, 1, 2], "r0/1": [3, 4, 5], "r0/2": [6, 7, 8]}
    copies = [event.changes for event in run.events if event.kind is Kind.COPY]
    assert copies[0] == {
        "sequence": 1, "source_blocks": [0, 1, 2], "destination_blocks": [3, 4, 5], "tokens": 9,
    }  # fmt: skip
    assert run.at(1).stored == {"r0/0": 9, "r0/1": 9, "r0/2": 9}
    assert run.traffic.copied_tokens == 18


def test_positions_map_through_pages():
    config = Config(allocator="virtual", model="tiny", page_size="256B", pool_tokens=100, timing="unit")
    run = simulate(requests((3, 1), (6, 4), name="two"), config, check=True)
    state = run.at(4)
    pages = state.block_tables["r1"]
    assert state.slots("r1", 4).tolist() == [4 * pages[i // 4] + i % 4 for i in range(9)]


def test_shortage_preempts_and_nothing_is_ever_external():
    config = Config(
        allocator="virtual", model="tiny", page_size="256B", pool_tokens=40, max_len=40, timing="unit"
    )
    run = simulate(requests((10, 15), (10, 15), (10, 15), name="three"), config, check=True)
    assert run.num_preemptions
    assert run.ledger["external"] == run.ledger["internal"] == 0
    assert run.free_at_end == 40
