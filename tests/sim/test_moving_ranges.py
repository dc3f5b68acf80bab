"""Ranges that grow, move and are compacted, driven at random beside a pool of real cells.

The cells follow the log alone, as an engine would: what was written must still be there after every move.
"""

from random import Random

import numpy as np
import pytest

from sim.alloc import (
    GRANTED,
    PLACEMENTS,
    GrowingAllocator,
    SlabPlacement,
    VirtualAllocator,
    by_step,
    double,
    exactly,
)
from sim.alloc.buddy import next_pow2
from sim.events import Event, EventLog, Kind
from sim.request import Request, SequenceGroup

POOL, MAX_LEN, PAGE = 150, 48, 5
EMPTY = -1


class Cells:
    """One integer a slot: who wrote it and at which position."""

    def __init__(self) -> None:
        self.cells = np.full(POOL, EMPTY)
        self.tables: dict[tuple, list[int]] = {}  # (request, sequence) -> its slots, by position

    def follow(self, event: Event) -> None:
        changes = event.changes
        who = (event.request, changes.get("sequence", 0))
        match event.kind:
            case Kind.ALLOC if "slots" in changes:
                start, length = changes["slots"]
                if who in self.tables:
                    assert self.tables[who][0] == start and length > len(self.tables[who])
                self.tables[who] = list(range(start, start + length))
            case Kind.ALLOC:
                slots = [page * PAGE + offset for page in changes["blocks"] for offset in range(PAGE)]
                self.tables[who] = self.tables.get(who, []) + slots
            case Kind.MOVE:
                old_start, old_length = changes["source_slots"]
                start, length = changes["destination_slots"]
                assert self.tables[who] == list(range(old_start, old_start + old_length))
                tokens = self.cells[old_start : old_start + changes["tokens"]].copy()
                self.cells[old_start : old_start + old_length] = EMPTY
                assert (self.cells[start : start + length] == EMPTY).all(), "moved onto somebody's tokens"
                self.cells[start : start + len(tokens)] = tokens
                self.tables[who] = list(range(start, start + length))
            case Kind.COPY if "source_slots" in changes:
                source, count = changes["source_slots"]
                start, _ = changes["destination_slots"]
                self.cells[start : start + count] = self.cells[source : source + count]
            case Kind.COPY:
                for source, page in zip(changes["source_blocks"], changes["destination_blocks"], strict=True):
                    self.cells[page * PAGE : (page + 1) * PAGE] = self.cells[
                        source * PAGE : (source + 1) * PAGE
                    ]
            case Kind.FREE:
                self.cells[self.tables.pop(who)] = EMPTY
            case _:
                raise AssertionError(event.kind)


class Driver:
    def __init__(self, allocator, log: EventLog, random: Random) -> None:
        self.allocator, self.log, self.random = allocator, log, random
        self.cells = Cells()
        self.groups: list[SequenceGroup] = []
        self.num_made = self.num_short = 0

    def catch_up(self) -> None:
        for event in self.log.events:
            self.cells.follow(event)
        self.log.events.clear()

    def admit(self) -> None:
        width, prompt = self.random.choice((1, 1, 1, 2, 3)), self.random.randint(1, 30)
        request = Request(
            id=f"r{self.num_made}", arrival_s=0.0, prompt=prompt, output=40, max_tokens=40, n=width
        )
        group = SequenceGroup(request, self.num_made)
        self.num_made += 1
        stranded = self.allocator.is_stranded(group)
        free = self.allocator.num_free_slots
        answer = self.allocator.admit(group, prompt, keep_watermark=False)
        if answer != GRANTED:
            self.num_short += 1
            assert not self.log.events and self.allocator.num_free_slots == free
            self.judge_admission(group, free)
            return
        assert not stranded or self.compacts
        self.catch_up()
        self.groups.append(group)
        self.write(group.sequences[0], prompt)
        for sequence in group.sequences[1:]:
            sequence.stored = prompt
        group.is_forked = True
        self.allocator.fork(group)
        self.catch_up()
        for sequence in group.sequences[1:]:
            slots = self.cells.tables[request.id, sequence.index][:prompt]
            first = self.cells.tables[request.id, 0][:prompt]
            assert (self.cells.cells[slots] == self.cells.cells[first]).all()
            self.cells.cells[slots] = self.tags(sequence)[:prompt]

    @property
    def compacts(self) -> bool:
        return getattr(self.allocator, "_compacts", False)

    def judge_admission(self, group: SequenceGroup, free: int) -> None:
        """A refusal must have been needed."""
        width, prompt = len(group.sequences), group.request.prompt
        if isinstance(self.allocator, VirtualAllocator):
            assert width * -(-prompt // PAGE) * PAGE > free
        elif not isinstance(self.allocator.placement, SlabPlacement):
            placement = self.allocator.placement
            taken = placement.rounded(prompt)
            if self.compacts:
                assert free // taken < width
            else:
                assert sum(length // taken for _, length in placement.holes()) < width

    def grow(self) -> None:
        group = self.random.choice(self.groups)
        sequence = self.random.choice(group.sequences)
        count = min(self.random.choice((1, 1, 1, 2, 9)), MAX_LEN - sequence.stored)
        free, stored = self.allocator.num_free_slots, sequence.stored
        answer = self.allocator.grow(sequence, count)
        if answer != GRANTED:
            self.num_short += 1
            assert not self.log.events and self.allocator.num_free_slots == free
            self.judge_growth(sequence, stored + count, free)
            self.finish(self.random.choice(self.groups))
            return
        self.catch_up()
        self.write(sequence, count)

    def judge_growth(self, sequence, needed: int, free: int) -> None:
        if isinstance(self.allocator, VirtualAllocator):
            assert needed > len(self.allocator.tables[sequence]) * PAGE + free
            return
        placement = self.allocator.placement
        start, length = self.allocator.ranges[sequence]
        taken = placement.rounded(length)
        holes = dict(placement.holes())
        if isinstance(placement, SlabPlacement):
            return
        assert placement.rounded(needed) > max(holes.values(), default=0)
        if type(placement).__name__ == "BuddyPlacement":
            if self.compacts:
                assert free < next_pow2(needed)
            return
        assert taken + holes.get(start + taken, 0) < needed
        if self.compacts:
            assert taken + free < needed

    def finish(self, group: SequenceGroup) -> None:
        self.groups.remove(group)
        self.allocator.release(group, "finished")
        self.catch_up()

    def tags(self, sequence):
        return (int(sequence.request.id[1:]) * 4 + sequence.index) * MAX_LEN + np.arange(MAX_LEN)

    def write(self, sequence, count: int) -> None:
        slots = self.cells.tables[sequence.request.id, sequence.index]
        new = slots[sequence.stored : sequence.stored + count]
        assert len(new) == count and (self.cells.cells[new] == EMPTY).all()
        self.cells.cells[new] = self.tags(sequence)[sequence.stored : sequence.stored + count]
        sequence.stored += count

    def check(self) -> None:
        self.allocator.check()
        held = [slot for table in self.cells.tables.values() for slot in table]
        assert len(held) == len(set(held)) == POOL - self.allocator.num_free_slots
        for group in self.groups:
            for sequence in group.sequences:
                slots = self.cells.tables[group.request.id, sequence.index][: sequence.stored]
                assert (self.cells.cells[slots] == self.tags(sequence)[: sequence.stored]).all()
        assert sum(s.stored for g in self.groups for s in g.sequences) == (self.cells.cells != EMPTY).sum()

    def step(self) -> None:
        roll = self.random.random()
        if not self.groups or roll < 0.15:
            self.admit()
        elif roll < 0.2:
            self.finish(self.random.choice(self.groups))
        else:
            self.grow()


def makers():
    for name, make in PLACEMENTS.items():
        for growth_name, growth in (("double", double), ("by 3", by_step(3))):
            for compacts in (False, True):
                label = f"grow {growth_name} {name}{' compacting' * compacts}"
                yield (
                    label,
                    lambda log, m=make, g=growth, c=compacts: GrowingAllocator(
                        POOL, g, m(POOL), MAX_LEN, log, compacts=c
                    ),
                )
    for name in ("first-fit", "buddy", "best-fit"):
        yield (
            f"slab {name}",
            lambda log, m=PLACEMENTS[name]: GrowingAllocator(
                POOL, exactly, SlabPlacement(m(POOL), [4, 8, 16, 32, 64]), MAX_LEN, log
            ),
        )
    yield "virtual", lambda log: VirtualAllocator(POOL // PAGE, PAGE, 4, log)


MAKERS = dict(makers())


@pytest.mark.parametrize("name", MAKERS)
def test_whatever_moves_what_was_written_is_still_there(name):
    log = EventLog()
    allocator = MAKERS[name](log)
    driver = Driver(allocator, log, Random(name))
    for index in range(10_000):
        driver.step()
        if index % 4 == 0:
            driver.check()
    assert driver.num_short > 50
    if name != "virtual":
        assert allocator.traffic.moved_tokens > 1000
    for group in list(driver.groups):
        driver.finish(group)
    driver.check()
    assert allocator.num_free_slots == POOL
    if name != "virtual":
        largest = max(length for _, length in allocator.placement.holes())
        assert largest == (128 if "buddy" in name else POOL)
