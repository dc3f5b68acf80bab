"""Every preset shows what its point says."""

from typing import Any

import pytest

from app.presets import PRESETS, preset_of, suggested
from app.sides import MORE, NAMES, config_of
from sim import InputError, Run, Trace, simulate
from sim.alloc import ALLOCATORS


def sides_of(name: str) -> list[Run]:
    preset = PRESETS[name]
    trace = Trace.read(preset.trace).first(200)
    return [simulate(trace, config_of(side, dict(preset.dials))) for side in (preset.a, preset.b)]


def of(run: Run, column: str) -> Any:
    return run.series.column(column)


def test_short_chats_leave_most_of_what_is_reserved_unused():
    one, other = sides_of("Short chats")
    assert one.report()["waste_percent"] > 75
    assert other.report()["waste_percent"] < 10


def test_the_four_requests_come_to_store_what_the_text_says():
    requests = Trace.read("four-requests").requests
    assert [one.final_tokens for one in requests] == [256, 512, 128, 1024, 2048]


def test_in_fragmentation_four_wait_before_eight_holes_of_256():
    one, other = sides_of("Fragmentation")
    assert one.ledger["internal"] == 0, "every reservation is exact"
    stranded = of(one, "external") == 8 * 256
    assert stranded.any() and (of(one, "waiting")[stranded] == 4).all()
    assert not of(other, "external").any()


def test_the_shared_prompt_is_kept_once_with_a_cache():
    plain, cached = sides_of("Shared system prompt")
    assert plain.report()["prefix"]["hit_tokens"] == 0
    assert cached.report()["prefix"]["hit_tokens"] == 256 * 39
    assert cached.ledger["free"] + cached.ledger["cached"] > 2 * plain.ledger["free"]


def test_the_long_tail_rounds_up_and_leaves_holes():
    one, other = sides_of("Long tail")
    assert one.ledger["internal"] + one.ledger["rounding"] > one.ledger["live"]
    assert one.ledger["external"] > 0
    assert other.report()["waste_percent"] < 5


def test_thrashing_recomputes_on_one_side_and_swaps_on_the_other():
    one, other = sides_of("Thrashing")
    assert one.num_preemptions > 100 and other.num_preemptions > 100
    assert one.work.again > 0 and not one.traffic.swapped_out_blocks
    assert other.traffic.swapped_out_blocks > 0 and other.work.again < one.work.again / 2


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_known_by_its_settings(name):
    assert preset_of({**PRESETS[name].settings, "block_size": 16}) == name
    assert preset_of({**PRESETS[name].settings, "a": "slab"}) is None


def test_a_trace_brings_the_pool_of_its_preset():
    assert dict(suggested("thrashing")) == {"pool_tokens": 4096, "max_len": 1024}
    assert suggested("azure-code-like") == {}


def test_every_allocator_is_a_side_and_dials_that_do_not_concern_it_are_left_out():
    assert set(NAMES) == {*ALLOCATORS, *MORE}
    for side in NAMES:
        config_of(side, {"placement": "first-fit", "preempt": "recompute", "block_size": 8})
    assert config_of("paged-swap", {"swap_blocks": 7}).num_host_blocks == 7


def test_dials_that_contradict_each_other_are_refused():
    with pytest.raises(InputError, match="block size 0"):
        config_of("paged", {"block_size": 0})
