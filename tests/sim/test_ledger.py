"""Each slot of the pool is in one class, and the classes are those that DESIGN section 5 defines."""

from random import Random

import pytest

from sim import Config, Trace, simulate
from sim.alloc import PLACEMENTS, PagedAllocator, SlabPlacement, VirtualAllocator
from sim.ledger import CLASSES, Ledger, take_ledger, waste_percent
from tests.making import random_dials, random_rows, random_trace, request, requests
from tests.sim.physical import Memory


class SlotBySlot:
    """The ledger by definition: every slot is looked at by itself, its content followed from the log."""

    def __init__(self, trace, config) -> None:
        self.memory = Memory(trace, config.num_slots, config.slots_per_block or 1)
        self.num_seen = 0

    def __call__(self, scheduler) -> dict[str, int]:
        events = scheduler._log.log.events  # behind the auditor of `check=True`
        for event in events[self.num_seen :]:
            self.memory.apply(event)
        self.num_seen = len(events)
        self.memory.check()
        allocator, live = scheduler.allocator, self.memory.live()
        classes: list[str] = ["free"] * allocator.num_slots
        for slot, owners in owners_of_slots(scheduler).items():
            if slot in live:
                classes[slot] = "live"
            else:  # one owner who will fill it is enough
                classes[slot] = min(class_of_empty(allocator, *owner) for owner in owners)[1]
        for slot in cached_slots(allocator):
            assert classes[slot] == "free", f"slot {slot} is {classes[slot]}, and cached"
            assert self.memory.slots[slot] is not None, f"slot {slot} is cached, and holds nothing"
            classes[slot] = "cached"
        if scheduler.waiting and is_kept_out_by_placement(allocator, scheduler.waiting[0], classes):
            classes = ["external" if name == "free" else name for name in classes]
        return {name: classes.count(name) for name in CLASSES}


def class_of_empty(allocator, sequence, position) -> tuple[int, str]:
    """What an empty slot is to its owner, with a rank."""
    if position < sequence.request.prompt + sequence.request.output - 1:
        return 1, "reserved"
    if isinstance(allocator, VirtualAllocator):
        return 3, "rounding"
    if isinstance(allocator, PagedAllocator) or position < allocator.ranges[sequence][1]:
        return 2, "internal"
    return 3, "rounding"


def owners_of_slots(scheduler) -> dict[int, list[tuple]]:
    """For each held slot the sequences that hold it, and at which position: the same for all of them."""
    found: dict[int, list[tuple]] = {}
    for group in scheduler.running:
        for sequence in group.sequences:
            for position, slot in enumerate(owned(scheduler.allocator, sequence)):
                found.setdefault(slot, []).append((sequence, position))
    for slot, owners in found.items():
        assert len({position for _, position in owners}) == 1, f"slot {slot} is held at two positions"
        assert len(owners) == 1 or isinstance(scheduler.allocator, PagedAllocator), (
            f"slot {slot} has two owners"
        )
    return found


def owned(allocator, sequence) -> list[int]:
    if isinstance(allocator, PagedAllocator | VirtualAllocator):
        size = allocator.block_size if isinstance(allocator, PagedAllocator) else allocator.page_tokens
        table = allocator.tables.get(sequence, [])  # none before it is forked
        return [block * size + offset for block in table for offset in range(size)]
    start, length = allocator.ranges[sequence]
    return list(range(start, start + allocator.placement.rounded(length)))


def cached_slots(allocator) -> list[int]:
    if not isinstance(allocator, PagedAllocator):
        return []
    size = allocator.block_size
    return [block * size + offset for block in allocator.device._evictable for offset in range(size)]


def is_kept_out_by_placement(allocator, group, classes) -> bool:
    """Free slots are enough in total, but places for its sequences are not. Tries every place."""
    num_free = classes.count("free")
    if isinstance(allocator, PagedAllocator | VirtualAllocator):
        size = allocator.block_size if isinstance(allocator, PagedAllocator) else allocator.page_tokens
        free = sum(set(classes[at : at + size]) == {"free"} for at in range(0, len(classes), size))
        return group.num_pending <= num_free and free * size < group.num_pending
    if isinstance(allocator.placement, SlabPlacement):
        return num_free > 0 and allocator.is_stranded(group)  # which chunks it cut cannot be seen from here
    length, count = allocator.first_length(group), len(group.sequences)
    rounded = allocator.placement.rounded(length)
    step = rounded if type(allocator.placement).__name__ == "BuddyPlacement" else 1
    at = num_places = 0
    while at + rounded <= len(classes):
        fits = set(classes[at : at + rounded]) == {"free"}
        num_places += fits
        at += rounded if fits else step
    return length * count <= num_free and num_places < count


@pytest.mark.parametrize("seed", range(30))
def test_the_ledger_is_what_looking_at_every_slot_gives(watched, seed):
    random = Random(seed)
    trace, config = random_trace(random, 25), Config(**random_dials(random))
    look = SlotBySlot(trace, config)

    def both(scheduler):
        ledger = take_ledger(scheduler)
        return {name: getattr(ledger, name) for name in CLASSES}, look(scheduler)

    _, seen = watched(trace, config, both)
    for step, (ours, slot_by_slot) in enumerate(seen, start=1):
        assert ours == slot_by_slot, f"step {step}"


def test_a_shared_prompt_is_live_once_somebody_has_computed_it(watched):
    """Story: three samples came back after a preemption, in chunks. Two of them called the prompt's blocks,
    which all three share, stored before the first had computed them, and the ledger called the slots live.
    """
    made = [request("r0", 20, 12), request("r1", 30, 8, n=3)]
    config = Config(
        timing="unit",
        pool_blocks=16,
        block_size=4,
        chunked_prefill=True,
        max_batch_tokens=9,
    )
    trace = Trace("t", tuple(made))
    run, seen = watched(trace, config, SlotBySlot(trace, config))
    assert run.groups[1].preemptions > 0
    assert len(run.groups[1].prefills) == 1 + run.groups[1].preemptions
    assert run.series.column("live").tolist() == [ledger["live"] for ledger in seen]


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("allocator", ["oracle", "pow2"])
def test_external_fragmentation_is_found_by_every_placement(watched, allocator, placement):
    trace = random_trace(Random(5), 60, longest=40)
    config = Config(timing="unit", allocator=allocator, placement=placement, pool_tokens=220, max_len=100)
    run, seen = watched(trace, config, SlotBySlot(trace, config))
    assert run.series.column("external").tolist() == [ledger["external"] for ledger in seen]
    assert run.series.column("external").max() > 0


@pytest.mark.parametrize("seed", range(15))
def test_the_classes_sum_to_the_pool_at_every_step(seed):
    random = Random(seed)
    config = Config(**random_dials(random))
    series = simulate(random_trace(random, 25), config).series
    total = sum(series.column(name) for name in CLASSES)
    assert (total == config.num_slots).all()
    assert (series.column("pool") == config.num_slots).all()


def test_a_ledger_that_does_not_add_up_stops_the_run():
    with pytest.raises(AssertionError, match="sum to 9, the pool has 10"):
        Ledger(10, 1, 2, 3, 1, 1, 1, 0).check(step=1)
    with pytest.raises(AssertionError, match="does not add up"):
        Ledger(10, 11, -1, 0, 0, 0, 0, 0).check(step=1)


def at(run, step, *names):
    return tuple(run.at(step).ledger[name] for name in names)


def test_paper_figure_3_request_a():
    """2048 reserved, 7 prompt tokens and 1 generated stored, 2 more to come: 2,038 are never used."""
    run = simulate(requests((7, 4)), Config(timing="unit", allocator="max", max_len=2048, pool_tokens=2048))
    assert at(run, 2, "live", "reserved", "internal", "free") == (8, 2, 2038, 0)


def test_paper_figure_3_request_b():
    """512 reserved, 3 + 1 stored, 1 more to come: 507 are never used."""
    run = simulate(requests((3, 3)), Config(timing="unit", allocator="max", max_len=512, pool_tokens=512))
    assert at(run, 2, "live", "reserved", "internal", "free") == (4, 1, 507, 0)


def test_the_tail_of_a_last_block_is_reserved_only_as_far_as_it_will_be_filled():
    run = simulate(requests((5, 3)), Config(timing="unit", pool_blocks=2, block_size=16))
    assert [at(run, step, "live", "reserved", "internal", "free") for step in (1, 2, 3)] == [
        (5, 2, 9, 16), (6, 1, 9, 16), (7, 0, 9, 16),
    ]  # fmt: skip


def test_buddy_rounding_is_not_internal():
    run = simulate(requests((10, 25)), Config(timing="unit", allocator="pow2", pool_tokens=100))
    # 10 + 32 asked for, 34 used in the end, 64 held
    assert at(run, 1, "live", "reserved", "internal", "rounding", "free") == (10, 24, 8, 22, 36)


def test_the_oracle_wastes_nothing_within_its_range():
    run = simulate(
        requests((10, 25)), Config(timing="unit", allocator="oracle", placement="first-fit", pool_tokens=40)
    )
    assert at(run, 1, "live", "reserved", "internal", "rounding", "free") == (10, 24, 0, 0, 6)


def test_free_slots_are_external_while_the_next_request_needs_them_in_one_piece():
    # [0, 4) leaves after step 1, [4, 12) after step 5, [12, 16) is a hole: 8 free slots, none of 8 in a row
    config = Config(timing="unit", allocator="oracle", placement="first-fit", pool_tokens=16)
    run = simulate(requests((4, 1), (4, 5), (8, 1)), config)
    assert at(run, 1, "external", "free") == (0, 4)  # not enough in total: that is no fragmentation
    assert [at(run, step, "external", "free") for step in (2, 3, 4, 5)] == [(8, 0)] * 4
    assert at(run, 6, "external", "free") == (0, 8)
    assert [r["finish"] for r in run.requests] == [1.0, 5.0, 6.0]


def test_free_slots_are_external_when_only_buddy_rounding_keeps_the_next_request_out():
    # 13 = 8 + 4 + 1: r0 takes the 8, r1 the 4 for a step; r2 asks for 5, which would have to be another 8
    run = simulate(
        requests((7, 2), (4, 1), (5, 1)), Config(timing="unit", allocator="oracle", pool_tokens=13)
    )
    assert at(run, 1, "external", "free") == (0, 1)
    assert at(run, 2, "external", "free") == (5, 0)


def test_waiting_for_a_place_in_the_batch_is_no_fragmentation():
    config = Config(timing="unit", allocator="oracle", placement="first-fit", pool_tokens=64, max_seqs=1)
    run = simulate(requests((4, 3), (8, 1)), config)
    assert at(run, 1, "external", "free") == (0, 58)


def test_a_paged_pool_has_no_external_fragmentation_by_the_same_rule():
    run = simulate(requests(*random_rows(Random(1), 40)), Config(timing="unit", pool_blocks=20, block_size=4))
    assert run.series.column("waiting").max() > 0
    assert run.series.column("external").sum() == 0


def test_full_blocks_can_be_half_empty_slots():
    """Sequences of 17 tokens in blocks of 16: a block gauge shows 100 %, and 53 % of the slots hold KV."""
    run = simulate(requests(*[(17, 1)] * 4), Config(timing="unit", pool_blocks=8, block_size=16))
    occupancy = run.report()["occupancy"]
    assert occupancy["block_percent"] == 100.0
    assert occupancy["slot_percent"] == 53.125


def test_waste_is_the_share_of_slots_in_use_without_live_kv():
    assert waste_percent(100, 30, 40) == 50.0
    assert waste_percent(100, 60, 40) == 0.0
    assert waste_percent(100, 0, 100) == 0.0  # nothing in use
