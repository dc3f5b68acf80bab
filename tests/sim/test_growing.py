"""`grow` and `slab`: ranges that get longer, the copies this costs, and compaction."""

import pytest

from sim import Config, Trace, simulate
from sim.additive_timing import AdditiveTiming
from sim.alloc import (
    GRANTED,
    PLACEMENTS,
    GrowingAllocator,
    Short,
    SlabPlacement,
    Usage,
    by_step,
    double,
    exactly,
)
from sim.batch import Batch
from sim.events import EventLog, Kind
from sim.hardware import get_hardware
from sim.models import get_model
from sim.replay import SlotRange
from sim.request import Request, SequenceGroup
from sim.timing import RooflineTiming
from tests.making import requests


def group_of(prompt: int, output: int = 20, *, n: int = 1, order: int = 0) -> SequenceGroup:
    request = Request(id=f"r{order}", arrival_s=0.0, prompt=prompt, output=output, max_tokens=output, n=n)
    return SequenceGroup(request, order)


def admitted(allocator: GrowingAllocator, group: SequenceGroup) -> SequenceGroup:
    assert allocator.admit(group, group.num_pending, keep_watermark=False) == GRANTED
    for sequence in group.sequences:
        sequence.stored, sequence.emitted = group.request.prompt, 1
    return group


def growing(num_slots: int, growth=double, placement="first-fit", **dials) -> GrowingAllocator:
    return GrowingAllocator(num_slots, growth, PLACEMENTS[placement](num_slots), 64, EventLog(), **dials)


def range_of(allocator: GrowingAllocator, group: SequenceGroup) -> tuple[int, int]:
    return allocator.ranges[group.sequences[0]]


def test_a_range_starts_at_the_prompt_and_doubles_where_it_is_when_the_slots_behind_are_free():
    allocator = growing(100)
    group = admitted(allocator, group_of(10))
    assert range_of(allocator, group) == (0, 10)
    assert allocator.grow(group.sequences[0], 1) == GRANTED
    assert range_of(allocator, group) == (0, 20)
    assert allocator.traffic.moved_tokens == 0
    assert [event.changes["slots"] for event in allocator._log] == [[0, 10], [0, 20]]


def test_it_takes_what_the_hole_behind_it_has_when_that_is_less_than_double():
    allocator = growing(40)
    first, gap, _ = [admitted(allocator, group_of(10, order=order)) for order in range(3)]
    allocator.release(gap, "finished")
    assert allocator.grow(first.sequences[0], 3) == GRANTED
    assert range_of(allocator, first) == (0, 20)
    first.sequences[0].stored = 20
    assert allocator.grow(first.sequences[0], 1) == Short(21, 10)


def test_it_moves_and_copies_its_tokens_when_it_is_hemmed_in():
    allocator = growing(100)
    first, _ = [admitted(allocator, group_of(10, order=order)) for order in range(2)]
    assert allocator.grow(first.sequences[0], 1) == GRANTED
    assert range_of(allocator, first) == (20, 20)
    assert allocator.placement.holes() == [(0, 10), (40, 60)]
    assert allocator.traffic.moved_tokens == 10
    move = allocator._log.events[-1]
    assert move.kind is Kind.MOVE
    assert move.changes == {
        "source_slots": [0, 10],
        "destination_slots": [20, 20],
        "reserved": 20,
        "tokens": 10,
    }


def test_where_double_does_not_fit_what_is_needed_will_do():
    allocator = growing(35)
    first, _ = [admitted(allocator, group_of(10, order=order)) for order in range(2)]
    assert allocator.grow(first.sequences[0], 1) == GRANTED  # 20 of 15 left: no; 11: yes
    assert range_of(allocator, first) == (20, 11)


def test_a_step_of_slots_extends_by_that_and_never_beyond_the_longest_sequence():
    allocator = growing(100, by_step(5))
    group = admitted(allocator, group_of(58))
    assert allocator.grow(group.sequences[0], 1) == GRANTED
    assert range_of(allocator, group) == (0, 63)
    group.sequences[0].stored = 63
    assert allocator.grow(group.sequences[0], 1) == GRANTED
    assert range_of(allocator, group) == (0, 64)


def test_a_buddy_chunk_grows_into_its_free_buddy_above_but_the_upper_one_must_move():
    allocator = growing(64, double, "buddy")
    lower, upper = [admitted(allocator, group_of(8, order=order)) for order in range(2)]
    assert allocator.grow(upper.sequences[0], 1) == GRANTED
    assert range_of(allocator, upper) == (16, 16)
    assert allocator.traffic.moved_tokens == 8
    assert allocator.grow(lower.sequences[0], 1) == GRANTED
    assert range_of(allocator, lower) == (0, 16)
    assert allocator.traffic.moved_tokens == 8


def test_what_buddy_rounds_up_is_used_before_anything_moves():
    allocator = growing(64, double, "buddy")
    group = admitted(allocator, group_of(10))
    assert allocator.usage([group]) == Usage(live=10, reserved=6)
    assert allocator.grow(group.sequences[0], 6) == GRANTED
    assert len(allocator._log) == 1
    short_lived = admitted(allocator, group_of(10, output=3, order=1))  # fills 12 of 16
    assert allocator.usage([short_lived]) == Usage(live=10, reserved=2, rounding=4)


def test_what_doubling_takes_in_vain_is_internal():
    allocator = growing(64)
    group = admitted(allocator, group_of(10, output=3))
    assert allocator.grow(group.sequences[0], 1) == GRANTED
    assert allocator.usage([group]) == Usage(live=10, reserved=2, internal=8)


def test_a_group_has_a_range_for_each_sequence_from_the_start_and_forks_by_copying():
    allocator = growing(100)
    group = admitted(allocator, group_of(10, n=3))
    assert [allocator.ranges[s] for s in group.sequences] == [(0, 10), (10, 10), (20, 10)]
    allocator.fork(group)
    assert (allocator.traffic.copies, allocator.traffic.copied_tokens) == (2, 20)


def test_a_shortage_changes_nothing():
    allocator = growing(20)
    first, _ = [admitted(allocator, group_of(10, order=order)) for order in range(2)]
    before = dict(allocator.ranges), allocator.placement.holes(), len(allocator._log)
    assert allocator.grow(first.sequences[0], 1) == Short(11, 0)
    assert (dict(allocator.ranges), allocator.placement.holes(), len(allocator._log)) == before


# Compaction


def test_compaction_makes_room_for_an_admission_by_sliding_ranges_down():
    allocator = growing(40, compacts=True)
    groups = [admitted(allocator, group_of(10, order=order)) for order in range(4)]
    allocator.release(groups[0], "finished")
    allocator.release(groups[2], "finished")
    newcomer = group_of(20, order=4)
    assert allocator.is_stranded(newcomer)
    assert admitted(allocator, newcomer)
    assert [range_of(allocator, g) for g in (groups[1], groups[3], newcomer)] == [(0, 10), (10, 10), (20, 20)]
    assert allocator.traffic.moved_tokens == 20
    moves = [event.changes for event in allocator._log if event.kind is Kind.MOVE]
    assert [(move["source_slots"], move["destination_slots"]) for move in moves] == [
        ([10, 10], [0, 10]),
        ([30, 10], [10, 10]),
    ]


def test_without_compaction_the_same_admission_finds_no_place():
    allocator = growing(40)
    groups = [admitted(allocator, group_of(10, order=order)) for order in range(4)]
    allocator.release(groups[0], "finished")
    allocator.release(groups[2], "finished")
    assert allocator.admit(group_of(20, order=4), 20, keep_watermark=False) == Short(20, 20)


def test_compaction_opens_the_hole_behind_the_range_that_has_to_grow():
    allocator = growing(24, compacts=True)  # | gap 4 | r1 10 | r2 8 | 2 free |
    gap, first, second = [
        admitted(allocator, group_of(prompt, order=order)) for order, prompt in enumerate((4, 10, 8))
    ]
    allocator.release(gap, "finished")
    assert allocator.grow(first.sequences[0], 5) == GRANTED
    assert range_of(allocator, first) == (0, 16)
    assert range_of(allocator, second) == (16, 8)
    assert allocator.traffic.moved_tokens == 18


def test_buddy_compaction_joins_two_free_chunks_by_moving_one_range():
    allocator = growing(16, double, "buddy", compacts=True)
    groups = [admitted(allocator, group_of(4, order=order)) for order in range(4)]
    allocator.release(groups[0], "finished")
    allocator.release(groups[2], "finished")
    newcomer = admitted(allocator, group_of(8, order=4))
    assert allocator.traffic.moved_tokens == 4
    assert sorted(allocator.ranges.values()) in ([(0, 8), (8, 4), (12, 4)], [(0, 4), (4, 4), (8, 8)])
    assert range_of(allocator, newcomer)[1] == 8


# Slabs


def slabs(num_slots: int = 64, classes=(4, 8, 16)) -> GrowingAllocator:
    placement = SlabPlacement(PLACEMENTS["first-fit"](num_slots), list(classes))
    return GrowingAllocator(num_slots, exactly, placement, 16, EventLog())


def test_a_slab_chunk_is_of_the_smallest_class_that_holds_the_input():
    allocator = slabs()
    groups = [admitted(allocator, group_of(prompt, output=2, order=prompt)) for prompt in (3, 5, 8, 9)]
    # the slab of class 4 has 16 // 4 chunks in [0, 16), of class 8 two in [16, 32), of class 16 one
    assert [range_of(allocator, group) for group in groups] == [(0, 3), (16, 5), (24, 8), (32, 9)]
    assert allocator.usage(groups[:1]) == Usage(live=3, reserved=1)
    assert allocator.usage(groups[1:2]) == Usage(live=5, reserved=1, rounding=2)


def test_a_full_chunk_moves_up_a_class_and_its_slab_goes_back_when_empty():
    allocator = slabs()
    group = admitted(allocator, group_of(4))
    assert allocator.grow(group.sequences[0], 1) == GRANTED
    assert range_of(allocator, group) == (16, 5)
    assert allocator.traffic.moved_tokens == 4
    assert allocator.placement.holes() == [(0, 16), (24, 8), (32, 32)]


def test_free_chunks_of_another_class_are_stranded():
    allocator = slabs(16)
    admitted(allocator, group_of(4))  # the only slab there is room for
    assert allocator.num_free_slots == 12
    assert allocator.is_stranded(group_of(5, order=1))
    assert not allocator.is_stranded(group_of(4, order=1))


def test_one_chunk_is_carved_where_a_whole_slab_does_not_fit():
    allocator = slabs(12, (4, 8))
    first = admitted(allocator, group_of(8))
    second = admitted(allocator, group_of(4, order=1))
    assert [range_of(allocator, group) for group in (first, second)] == [(0, 8), (8, 4)]
    assert allocator.num_free_slots == 0


# Whole runs


def test_grow_runs_short_and_preempts_the_youngest():
    config = Config(
        allocator="grow", placement="first-fit", pool_tokens=40, max_len=40, timing="unit", growth="4"
    )
    run = simulate(requests((10, 15), (10, 15), name="two"), config, check=True)
    first = next(event for event in run.events if event.kind is Kind.PREEMPT)
    assert first.request == "r1"
    assert first.why.startswith("r1 needs 11 contiguous slots, 10 free; request r1 ")
    assert {request["status"] for request in run.requests} == {"finished"}


def test_the_last_one_running_starts_anew_when_its_range_can_neither_grow_nor_move():
    """Story: the only request preempted itself, and the step that was left had nothing to run."""
    config = Config(
        allocator="grow", placement="first-fit", pool_tokens=40, max_len=40, timing="unit", growth="4"
    )
    run = simulate(requests((10, 15), (10, 15), name="two"), config, check=True)
    again = [event for event in run.events if event.kind is Kind.PREEMPT and event.request == "r0"]
    assert [event.changes["stored"] for event in again] == [20]  # [0, 20) and [20, 40), never 21 in a row
    assert run.requests[0]["prefills"] == [10, 21]
    assert min(run.series.column("batch")) >= 1


def test_the_log_shows_an_extension_and_a_move_as_the_range_held_from_then_on():
    config = Config(allocator="grow", placement="first-fit", pool_tokens=100, max_len=64, timing="unit")
    run = simulate(requests((4, 8), (4, 8), name="two"), config, check=True)
    tables = [run.at(step).block_tables for step in (1, 2, 6)]
    assert tables[0] == {"r0": SlotRange(0, 4, 4), "r1": SlotRange(4, 4, 4)}
    assert tables[1] == {"r0": SlotRange(8, 8, 8), "r1": SlotRange(16, 8, 8)}  # the hole at 0 is 4 + 0 long
    assert tables[2] == {"r0": SlotRange(24, 16, 16), "r1": SlotRange(0, 16, 16)}
    moves = [event for event in run.events if event.kind is Kind.MOVE]
    assert run.report()["moved_tokens"] == sum(move.changes["tokens"] for move in moves) > 0


def test_moved_tokens_are_read_and_written_once_at_the_device_bandwidth():
    spec, device = get_model("opt-13b"), get_hardware("a100-40gb")
    timing = RooflineTiming(spec, device, "fp16", 16)
    extra = timing.seconds(Batch(1, 0.0, num_moved_tokens=1000)) - timing.seconds(Batch(1, 0.0))
    assert extra == pytest.approx(2 * 1000 * 819_200 / 1555e9)
    linear = AdditiveTiming(step=1.0, copied_token=0.5)
    assert linear.seconds(Batch(1, 0.0, num_moved_tokens=2, num_copied_tokens=1)) == 2.5


def test_a_run_pays_for_what_it_moves():
    trace = requests(*[(20, 60)] * 6, name="six")
    dials = {"allocator": "grow", "placement": "first-fit", "pool_tokens": 2000, "max_len": 100}
    slow, fast = [simulate(trace, Config(growth=growth, **dials)) for growth in ("1", "double")]
    assert slow.traffic.moved_tokens > fast.traffic.moved_tokens
    spec, device = get_model("opt-13b"), get_hardware("a100-40gb")
    per_token = 2 * spec.kv_bytes_per_token() / device.bandwidth_bytes_per_s
    more = slow.traffic.moved_tokens - fast.traffic.moved_tokens
    assert slow.time_s - fast.time_s == pytest.approx(more * per_token, rel=1e-6)


def test_a_fork_is_paid_for_by_the_next_step():
    """Story: copies at a fork were counted after the step's batch was made, and no batch ever had them."""
    request = Request(id="r0", arrival_s=0.0, prompt=64, output=5, max_tokens=5, n=4)
    run = simulate(Trace("fork", (request,)), Config(allocator="oracle", pool_tokens=4000, max_len=100))
    durations = run.series.column("duration")
    spec, device = get_model("opt-13b"), get_hardware("a100-40gb")
    copying = 2 * spec.kv_bytes_per_token() * 3 * 64 / device.bandwidth_bytes_per_s
    assert durations[1] - durations[2] == pytest.approx(copying, rel=0.05)
