"""Every allocator through its one protocol, driven at random: nobody's slots overlap and none is lost."""

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from sim.alloc import (
    GRANTED,
    PLACEMENTS,
    RESERVATIONS,
    BlockPool,
    ContiguousAllocator,
    KVAllocator,
    PagedAllocator,
    Short,
)
from sim.events import EventLog
from sim.request import Request, Sequence

POOL, BLOCK, HOST_BLOCKS, MAX_LEN = 60, 4, 5, 24

Make = Callable[[EventLog], KVAllocator]


def paged(log: EventLog) -> PagedAllocator:
    return PagedAllocator(POOL // BLOCK, BLOCK, log, num_host_blocks=HOST_BLOCKS, watermark=0.2)


def contiguous(reservation: str, placement: str) -> Make:
    return lambda log: ContiguousAllocator(POOL, reservation, PLACEMENTS[placement](POOL), MAX_LEN, log, 0.2)


MAKERS: dict[str, Make] = {
    "paged": paged,
    **{f"{policy} {place}": contiguous(policy, place) for policy in RESERVATIONS for place in PLACEMENTS},
}


def frozen(value: object) -> object:
    """All that an allocator knows, as plain data. The log is left to itself."""
    match value:
        case Sequence():
            return value.request.id
        case dict():
            return [(frozen(key), frozen(item)) for key, item in value.items()]
        case set():
            return sorted(value)
        case list() | tuple():
            return [frozen(item) for item in value]
        case EventLog():
            return len(value)
        case _ if hasattr(value, "__dict__") and not callable(value):
            return frozen(vars(value))
        case _:
            return repr(value)


class Driver:
    """Does to an allocator what a scheduler may, and checks every answer against a byte for each slot."""

    def __init__(self, make: Make) -> None:
        self.log = EventLog()
        self.allocator = make(self.log)
        self.is_paged = isinstance(self.allocator, PagedAllocator)
        self.running: list[Sequence] = []
        self.swapped: list[Sequence] = []
        self.num_made = 0

    def owned(self, sequence: Sequence) -> list[int]:
        if isinstance(self.allocator, PagedAllocator):
            table = self.allocator.tables[sequence]
            return [block * BLOCK + offset for block in table for offset in range(BLOCK)]
        assert isinstance(self.allocator, ContiguousAllocator)
        start, length = self.allocator.ranges[sequence]
        return list(range(start, start + self.allocator.placement.rounded(length)))

    def unchanged_if_short(self, act: Callable[[], object]) -> bool:
        before = frozen(self.allocator)
        answer = act()
        if isinstance(answer, Short):
            assert frozen(self.allocator) == before, "Short, yet something changed"
            assert answer.needed > 0
            assert answer.available >= 0
            return False
        assert answer is GRANTED
        return True

    def admit(self, prompt: int, output: int, chunk: int, *, keep_watermark: bool) -> None:
        request = Request(
            id=f"r{self.num_made}", arrival_s=0.0, prompt=prompt, output=output, max_tokens=output
        )
        self.num_made += 1
        if self.allocator.never_fits(request) or request.worst_case_tokens > MAX_LEN:
            return
        sequence = Sequence(request, order=self.num_made)
        chunk = min(chunk, prompt)
        free_before, stranded = self.allocator.num_free_slots, self.allocator.is_stranded(sequence)
        granted = self.unchanged_if_short(
            lambda: self.allocator.admit(sequence, chunk, keep_watermark=keep_watermark)
        )
        if not granted:
            return
        assert not stranded
        if keep_watermark:
            needed = (
                -(-prompt // BLOCK) * BLOCK if self.is_paged else free_before - self.allocator.num_free_slots
            )
            assert free_before - needed >= POOL * 0.2
        sequence.stored = chunk
        self.running.append(sequence)

    def grow(self, index: int) -> None:
        sequence = self.running[index % len(self.running)]
        if sequence.stored >= sequence.request.final_tokens:
            return
        tokens = max(1, sequence.request.prompt - sequence.stored)
        if self.unchanged_if_short(lambda: self.allocator.grow(sequence, tokens)):
            sequence.stored += tokens

    def release(self, index: int) -> None:
        sequence = self.running.pop(index % len(self.running))
        before, owned = self.allocator.num_free_slots, len(self.owned(sequence))
        self.allocator.release(sequence, "test")
        assert self.allocator.num_free_slots == before + owned

    def swap_out(self, index: int) -> None:
        sequence = self.running[index % len(self.running)]
        if self.allocator.host_has_room(sequence):
            self.running.remove(sequence)
            self.allocator.swap_out(sequence, "test")
            self.swapped.append(sequence)

    def swap_in(self, index: int) -> None:
        sequence = self.swapped[index % len(self.swapped)]
        if self.unchanged_if_short(lambda: self.allocator.swap_in(sequence, 1, "test")):
            self.swapped.remove(sequence)
            sequence.stored += 1
            self.running.append(sequence)

    def verify(self) -> None:
        self.allocator.check()
        slots = bytearray(POOL)
        for sequence in self.running:
            owned, held = self.owned(sequence), self.allocator.held(sequence)
            for slot in owned:
                assert not slots[slot], f"slot {slot} has two owners"
                slots[slot] = 1
            assert len(owned) == held.num_held >= held.num_reserved >= sequence.stored
        assert self.allocator.num_free_slots == POOL - sum(slots)
        if isinstance(self.allocator, PagedAllocator):
            assert all(len(self.allocator.tables[s]) == -(-s.stored // BLOCK) for s in self.running)
            written = sum(-(-s.stored // BLOCK) for s in self.swapped)
            assert self.allocator.host.num_free == HOST_BLOCKS - written

    def step(self, random: Random) -> None:
        choice = random.random()
        if choice < 0.35 or not (self.running or self.swapped):
            prompt, output = random.randint(1, 14), random.randint(1, 12)
            self.admit(prompt, output, random.randint(1, 14), keep_watermark=random.random() < 0.3)
        elif choice < 0.75 and self.running:
            self.grow(random.randrange(99))
        elif choice < 0.85 and self.running:
            self.swap_out(random.randrange(99))
        elif choice < 0.92 and self.swapped:
            self.swap_in(random.randrange(99))
        elif self.running:
            self.release(random.randrange(99))


@pytest.mark.parametrize("name", MAKERS)
def test_random_operations_keep_every_slot_with_one_owner(name):
    random, driver = Random(name), Driver(MAKERS[name])
    for _ in range(10_000 if name == "paged" else 3_000):
        driver.step(random)
        driver.verify()
    for kind in ("alloc", "free"):
        assert sum(event.kind == kind for event in driver.log) > 300
    while driver.running:
        driver.release(0)
    assert driver.allocator.num_free_slots == POOL or driver.swapped


class PagedMachine(RuleBasedStateMachine):
    """The same driver in hypothesis' hands, which shrinks what it finds."""

    make: Make = staticmethod(paged)

    def __init__(self) -> None:
        super().__init__()
        self.driver = Driver(self.make)

    @rule(prompt=st.integers(1, 20), output=st.integers(1, 20), chunk=st.integers(1, 20), keep=st.booleans())
    def admit(self, prompt, output, chunk, keep):
        self.driver.admit(prompt, output, chunk, keep_watermark=keep)

    @precondition(lambda self: self.driver.running)
    @rule(index=st.integers(0, 20))
    def grow(self, index):
        self.driver.grow(index)

    @precondition(lambda self: self.driver.running)
    @rule(index=st.integers(0, 20))
    def release(self, index):
        self.driver.release(index)

    @precondition(lambda self: self.driver.running)
    @rule(index=st.integers(0, 20))
    def swap_out(self, index):
        self.driver.swap_out(index)

    @precondition(lambda self: self.driver.swapped)
    @rule(index=st.integers(0, 20))
    def swap_in(self, index):
        self.driver.swap_in(index)

    @invariant()
    def verify(self):
        self.driver.verify()


class BuddyMachine(PagedMachine):
    """Oracle reservations in a buddy pool of 60 = 32 + 16 + 8 + 4."""

    make = staticmethod(contiguous("oracle", "buddy"))


TestPagedMachine = PagedMachine.TestCase
TestBuddyMachine = BuddyMachine.TestCase
TestPagedMachine.settings = TestBuddyMachine.settings = settings(
    max_examples=30, stateful_step_count=40, deadline=None
)


def served(prompt: int, output: int, max_tokens: int | None = None) -> Sequence:
    request = Request(id="r", arrival_s=0.0, prompt=prompt, output=output, max_tokens=max_tokens or output)
    return Sequence(request, order=0)


@pytest.mark.parametrize(
    ("policy", "prompt", "output", "reserved"),
    [
        ("pow2", 10, 25, 10 + 32),
        ("pow2", 10, 32, 10 + 32),
        ("pow2", 10, 33, 10 + 64),
        ("pow2", 2000, 40, 2048),  # at most max_len
        ("oracle", 10, 25, 34),
        ("max", 10, 25, 2048),
    ],
)
def test_what_each_policy_reserves(policy, prompt, output, reserved):
    allocator = ContiguousAllocator(15_728, policy, PLACEMENTS["first-fit"](15_728), 2048, EventLog())
    sequence = served(prompt, output)
    assert allocator.admit(sequence, prompt, keep_watermark=False) is GRANTED
    assert allocator.held(sequence).num_reserved == allocator.held(sequence).num_held == reserved


def test_a_buddy_pool_holds_more_than_was_reserved():
    allocator = ContiguousAllocator(15_728, "pow2", PLACEMENTS["buddy"](15_728), 2048, EventLog())
    sequence = served(10, 25)
    allocator.admit(sequence, 10, keep_watermark=False)
    held = allocator.held(sequence)
    assert (held.num_reserved, held.num_held) == (42, 64)


def test_only_the_oracle_and_pow2_look_at_the_true_output():
    short, long = served(10, 3, 100), served(10, 90, 100)
    for policy, looks in {"max": False, "pow2": True, "oracle": True}.items():
        allocator = ContiguousAllocator(9999, policy, PLACEMENTS["buddy"](9999), 2048, EventLog())
        assert (allocator.reservation(short.request) != allocator.reservation(long.request)) == looks


def test_the_paged_pool_hands_out_the_first_block_of_the_last_freed_table_first():
    pool = BlockPool(6)
    assert pool.take(3) == [0, 1, 2]
    assert pool.take(2) == [3, 4]
    pool.give_back([2, 1, 0])  # a table is freed from its end
    assert pool.take(4) == [0, 1, 2, 5]


def test_a_paged_sequence_takes_a_block_only_when_its_last_one_is_full():
    """Paper figure 6: 7 prompt tokens in blocks of 4; the 8th fills the second, the 9th takes a third."""
    allocator = PagedAllocator(8, 4, EventLog())
    sequence = served(7, 5)
    allocator.admit(sequence, 7, keep_watermark=False)
    sizes = []
    for sequence.stored in (7, 8, 9):
        sizes.append(len(allocator.tables[sequence]))
        allocator.grow(sequence, 1)
    assert sizes == [2, 2, 3]


def test_the_books_are_checked_against_a_lost_block_and_a_block_with_two_owners():
    allocator = PagedAllocator(4, 4, EventLog())
    sequence = served(7, 1)
    allocator.admit(sequence, 7, keep_watermark=False)
    lost = allocator.tables[sequence].pop()
    with pytest.raises(AssertionError, match="lost"):
        allocator.check()
    allocator.tables[sequence] += [lost, lost]
    with pytest.raises(AssertionError, match="two owners"):
        allocator.check()


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_the_books_of_ranges_are_checked_too(placement):
    allocator = ContiguousAllocator(64, "oracle", PLACEMENTS[placement](64), 64, EventLog())
    one, two = served(8, 1), served(8, 1)
    allocator.admit(one, 8, keep_watermark=False)
    allocator.admit(two, 8, keep_watermark=False)
    allocator.check()
    allocator.ranges[two] = allocator.ranges[one]
    with pytest.raises(AssertionError, match="two owners"):
        allocator.check()


def test_a_block_table_takes_four_bytes_a_block_and_a_range_eight():
    pages = PagedAllocator(8, 4, EventLog())
    pages.admit(served(9, 1), 9, keep_watermark=False)
    assert pages.table_bytes() == 12
    ranges = ContiguousAllocator(64, "oracle", PLACEMENTS["buddy"](64), 64, EventLog())
    ranges.admit(served(9, 1), 9, keep_watermark=False)
    assert ranges.table_bytes() == 8
