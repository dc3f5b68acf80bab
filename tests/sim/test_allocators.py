"""Every allocator through its one protocol, driven at random: each token is found where its table says."""

import io
import pickle
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

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
from sim.alloc.swap import unique
from sim.batch import Chunk
from sim.cache import PREFIX_CACHES
from sim.events import EventLog, Kind
from sim.narrate import Narrator
from sim.request import Request, Sequence, SequenceGroup
from tests.making import content, request
from tests.sim.physical import Memory

POOL, BLOCK, HOST_BLOCKS, MAX_LEN = 60, 4, 5, 24

Make = Callable[[EventLog], KVAllocator]
Plan = list[tuple[Sequence, int]]


def paged(cache: str | None = None) -> Make:
    return lambda log: PagedAllocator(
        POOL // BLOCK,
        BLOCK,
        log,
        num_host_blocks=HOST_BLOCKS,
        watermark=0.2,
        cache=PREFIX_CACHES[cache]() if cache else None,
    )


def contiguous(reservation: str, placement: str) -> Make:
    return lambda log: ContiguousAllocator(POOL, reservation, PLACEMENTS[placement](POOL), MAX_LEN, log, 0.2)


MAKERS: dict[str, Make] = {
    "paged": paged(),
    **{f"paged {cache}": paged(cache) for cache in PREFIX_CACHES},
    **{f"{policy} {place}": contiguous(policy, place) for policy in RESERVATIONS for place in PLACEMENTS},
}


class Freezer(pickle.Pickler):
    """Writes down all that an allocator knows. The log and the sequences are left to themselves."""

    def reducer_override(self, value: object) -> object:
        match value:
            case Sequence():
                return str, (value.name,)
            case EventLog():
                return int, (len(value),)
            case _ if callable(value) and not isinstance(value, type):
                return str, (value.__qualname__,)  # type: ignore[attr-defined]
            case _:
                return NotImplemented


def frozen(allocator: KVAllocator) -> bytes:
    out = io.BytesIO()
    Freezer(out).dump(allocator)
    return out.getvalue()


class Driver:
    """Does to an allocator what a scheduler may, and checks every answer against a byte for each slot.

    One step reserves room for several groups, preempting others where it is short, then runs them. What the
    slots hold is followed by `Memory`, from the log.
    """

    def __init__(self, make: Make) -> None:
        self.log = EventLog()
        self.say = Narrator(self.log)
        self.allocator = make(self.log)
        self.memory = Memory([], POOL, BLOCK)
        self.num_seen = 0
        self.waiting: list[SequenceGroup] = []
        self.running: list[SequenceGroup] = []
        self.swapped: list[SequenceGroup] = []
        self.room: dict[Sequence, int] = {}  # tokens for which a paged sequence has blocks
        self.num_made = 0

    # What may happen

    def arrive(self, made: Request) -> None:
        if self.allocator.never_fits(made) or made.worst_case_tokens > MAX_LEN:
            return
        self.num_made += 1
        self.memory.expect(made)
        group = SequenceGroup(made, order=self.num_made)
        self.say.arrival(group)
        self.waiting.append(group)

    def admit(self, index: int, budget: int, *, keep_watermark: bool) -> None:
        group, allocator = self.waiting[index % len(self.waiting)], self.allocator
        free, stranded = allocator.num_free_slots, allocator.is_stranded(group)
        was_free = isinstance(allocator, PagedAllocator) and [not refs for refs in allocator.device.num_refs]
        uncached = allocator.uncached_tokens(group)
        budget = min(budget, uncached)
        if not self.unchanged_if_short(lambda: allocator.admit(group, budget, keep_watermark=keep_watermark)):
            return
        assert not stranded
        self.waiting.remove(group)
        self.running.append(group)
        first = group.sequences[0]
        needed = free - allocator.num_free_slots
        if isinstance(allocator, PagedAllocator):
            assert first.stored % BLOCK == 0
            hits = allocator.tables[first][: first.stored // BLOCK]
            pinned = [block for block in hits if was_free and was_free[block]]
            needed = (blocks_of_all(group) - len(hits) + len(pinned)) * BLOCK
        assert needed <= free - POOL * 0.2 * keep_watermark
        assert group.num_pending == uncached, "it said how many tokens are left to compute"
        for sequence in group.active:
            sequence.input_tokens = sequence.stored + sequence.num_pending
            self.room[sequence] = sequence.input_tokens if len(group.active) > 1 else sequence.stored + budget
        self.say.admission(group, uncached, budget, budget)
        plan = plan_of(group, budget)
        assert self.reserve(plan), "it was admitted without its memory"
        self.run({group: plan})

    def step(self, random: Random, budget: int) -> None:
        """Some running groups go on; any of them may be preempted for another."""
        batch: dict[SequenceGroup, Plan] = {}
        for group in random.sample(self.running, random.randint(1, len(self.running))):
            while group in self.running:
                plan = plan_of(group, budget)
                if self.reserve(plan):
                    batch[group] = plan
                    break
                victim = random.choice(self.running)
                batch.pop(victim, None)
                self.preempt(victim, swap=random.random() < 0.5)
        self.run(batch)

    def preempt(self, group: SequenceGroup, *, swap: bool) -> None:
        self.running.remove(group)
        if swap and self.allocator.host_has_room(group):
            self.say.preemption(group, "swap", "test")
            for sequence in group.active:
                least = group.request.prompt // BLOCK * BLOCK if len(group.active) > 1 else 0
                self.room[sequence] = max(least, sequence.stored)
            self.allocator.swap_out(group, "test")
            self.swapped.append(group)
            return
        self.say.preemption(group, "recompute", "test")
        self.release(group)
        for sequence in group.sequences:
            sequence.stored = sequence.input_tokens = 0
        self.waiting.append(group)

    def finish(self, index: int) -> None:
        """The end may come at any time: nobody knows how long an output is."""
        group = self.running.pop(index % len(self.running))
        self.say.finish(group)
        self.release(group)

    def swap_in(self, index: int, budget: int) -> None:
        group = self.swapped[index % len(self.swapped)]
        plan = plan_of(group, budget)
        given = dict(plan)
        tokens = [given.get(sequence, 0) for sequence in group.active]
        if self.unchanged_if_short(lambda: self.allocator.swap_in(group, tokens, "test")):
            self.swapped.remove(group)
            self.running.append(group)
            for sequence, num_tokens in plan:
                self.room[sequence] = max(self.room[sequence], sequence.stored + num_tokens)
            self.run({group: plan})

    # What comes of it

    def reserve(self, plan: Plan) -> bool:
        for sequence, num_tokens in plan:
            if not self.grow(sequence, num_tokens):
                return False
            self.room[sequence] = max(self.room[sequence], sequence.stored + num_tokens)
        return True

    def grow(self, sequence: Sequence, num_tokens: int) -> bool:
        if self.allocator.num_free_slots >= num_tokens + 2 * BLOCK:  # a copy, and a block that is begun
            assert self.allocator.grow(sequence, num_tokens) is GRANTED
            return True
        return self.unchanged_if_short(lambda: self.allocator.grow(sequence, num_tokens))

    def run(self, batch: dict[SequenceGroup, Plan]) -> None:
        emitting: list[SequenceGroup] = []
        for group, plan in batch.items():
            emits = sum(num_tokens for _, num_tokens in plan) == group.num_pending
            emitting += [group] * emits
            for sequence, num_tokens in plan:
                chunk = Chunk(group, sequence, sequence.stored, num_tokens, sequence.is_prefilling, emits)
                sequence.stored += num_tokens
                sequence.emitted += emits
                self.say.progress(chunk, 0)
        for group in emitting:
            self.branch(group)
        for group in [group for group in self.running if group.is_finished]:
            self.finish(self.running.index(group))

    def branch(self, group: SequenceGroup) -> None:
        first, *others = group.sequences
        if not group.is_forked:
            group.is_forked = True
            for sequence in others:
                sequence.stored, sequence.emitted, sequence.input_tokens = first.stored, 1, first.input_tokens
                self.room[sequence] = self.room[first]
            self.allocator.fork(group)
        elif group.request.beam > 1 and not group.is_finished:
            beams = range(group.request.beam)
            self.allocator.reorder(group, Random(self.num_made).choices(beams, k=len(beams)))

    def release(self, group: SequenceGroup) -> None:
        before, owners = self.allocator.num_free_slots, self.owners()
        mine = {slot for sequence in group.sequences for slot in self.owned(sequence)}
        self.allocator.release(group, "test")
        alone = mine - self.owners().keys()
        assert self.allocator.num_free_slots == before + len(alone)
        assert mine <= owners.keys()
        assert not set(self.holders()) & set(group.sequences)

    def owned(self, sequence: Sequence) -> list[int]:
        if isinstance(self.allocator, PagedAllocator):
            table = self.allocator.tables.get(sequence, [])
            return [block * BLOCK + offset for block in table for offset in range(BLOCK)]
        assert isinstance(self.allocator, ContiguousAllocator)
        start, length = self.allocator.ranges.get(sequence, (0, 0))
        return list(range(start, start + self.allocator.placement.rounded(length))) if length else []

    def owners(self) -> Counter[int]:
        """How many sequences hold each slot that is held."""
        return Counter(slot for sequence in self.holders() for slot in self.owned(sequence))

    def holders(self) -> list[Sequence]:
        allocator = self.allocator
        return list(allocator.tables if isinstance(allocator, PagedAllocator) else allocator.ranges)

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

    def verify(self) -> None:
        self.allocator.check()
        for event in self.log.events[self.num_seen :]:
            self.memory.apply(event)
        self.num_seen = len(self.log.events)
        self.memory.check()
        owners = self.owners()
        assert self.allocator.num_free_slots == POOL - len(owners)
        usage = self.allocator.usage(self.running)
        assert usage.live == len(self.memory.live())
        assert usage.live + usage.reserved + usage.internal + usage.rounding == len(owners)
        assert min(usage.live, usage.reserved, usage.internal, usage.rounding) >= 0
        if not isinstance(self.allocator, PagedAllocator):
            assert set(owners.values()) <= {1}, "a range has two owners"
            assert set(self.holders()) == {one for group in self.running for one in group.sequences}
            return
        assert set(self.holders()) == {one for group in self.running for one in group.active}
        tables = self.allocator.tables
        assert self.allocator.table_bytes() == 4 * sum(len(table) for table in tables.values())
        for sequence in (sequence for group in self.running for sequence in group.active):
            assert len(tables[sequence]) == -(-self.room[sequence] // BLOCK), (
                f"{sequence.name} holds too much"
            )
        on_host = [block for group in self.swapped for block in unique(self.allocator.host.tables_of(group))]
        assert len(on_host) == len(set(on_host)) == HOST_BLOCKS - self.allocator.host.pool.num_free
        cached = [slot for slot, prefix in enumerate(self.memory.slots) if prefix is not None]
        assert self.allocator.num_cached_slots == len([slot for slot in cached if slot not in owners])

    def act(self, random: Random) -> None:
        choice, budget = random.random(), random.choice((1, 2, 3, 5, 14, 99))
        if choice < 0.2 and len(self.waiting) < 4:
            self.arrive(random_request(random, self.num_made))
        elif choice < 0.4 and self.waiting:
            self.admit(random.randrange(99), budget, keep_watermark=random.random() < 0.3)
        elif choice < 0.8 and self.running:
            self.step(random, budget)
        elif choice < 0.85 and self.running:
            self.preempt(random.choice(self.running), swap=random.random() < 0.7)
        elif choice < 0.95 and self.swapped:
            self.swap_in(random.randrange(99), budget)
        elif choice > 0.97 and self.running:
            self.finish(random.randrange(99))


def random_request(random: Random, index: int) -> Request:
    prompt, output = random.randint(1, 14), random.randint(1, 12)
    width = random.choice(({}, {"n": 2}, {"n": 3}, {"beam": 2}, {"beam": 3}))
    return request(f"r{index}", prompt, output, **width, **content(random, prompt))


def plan_of(group: SequenceGroup, budget: int) -> Plan:
    """Pending tokens to run: all, or as many as the budget lets, each sequence holding back its last one."""
    if group.num_pending <= budget:
        return [(sequence, sequence.num_pending) for sequence in group.active]
    plan: Plan = []
    for sequence in group.active:
        num_tokens = min(sequence.num_pending - 1, budget)
        budget -= num_tokens
        plan += [(sequence, num_tokens)] if num_tokens else []
    return plan


def blocks_of_all(group: SequenceGroup) -> int:
    """Blocks that a group holds once its input is stored: full blocks of the prompt are shared."""
    prompt, known = group.request.prompt, group.request.prompt + group.sequences[0].emitted
    each, common = -(-known // BLOCK), prompt // BLOCK
    return common + (each - common) * len(group.active)


@pytest.mark.parametrize("name", MAKERS)
def test_random_operations_keep_every_token_where_its_table_says(name):
    random, driver = Random(name), Driver(MAKERS[name])
    for _ in range({"paged": 5_000, "paged hash": 2_500, "paged radix": 2_500}.get(name, 1_200)):
        driver.act(random)
        driver.verify()
    kinds = Counter(event.kind for event in driver.log)
    usual = ["prefill", "decode", "alloc", "free"]
    usual += ["fork", "copy", "preempt", "swap_in"] if name.startswith("paged") else []
    usual += ["hit", "evict"] if name.startswith("paged ") else []
    assert all(kinds[Kind(kind)] > 40 for kind in usual), kinds
    assert kinds[Kind.COPY] > 20 or name == "max buddy", kinds  # which has room for one sequence at a time
    while driver.running:
        driver.finish(0)
    assert driver.allocator.num_free_slots == POOL


class PagedMachine(RuleBasedStateMachine):
    """The same driver in hypothesis' hands, which shrinks what it finds."""

    make: Make = staticmethod(paged())

    def __init__(self) -> None:
        super().__init__()
        self.driver = Driver(self.make)

    @rule(
        prompt=st.integers(1, 20),
        output=st.integers(1, 20),
        width=st.sampled_from([{}, {"n": 2}, {"n": 3}, {"beam": 2}, {"beam": 3}]),
        family=st.sampled_from([{}, {"tokens": 1}, {"tokens": 2}]),
    )
    def arrive(self, prompt, output, width, family):
        start = {name: tuple(range(value, value + prompt)) for name, value in family.items()}
        self.driver.arrive(request(f"r{self.driver.num_made}", prompt, output, **width, **start))

    @precondition(lambda self: self.driver.waiting)
    @rule(index=st.integers(0, 20), budget=st.integers(1, 40), keep=st.booleans())
    def admit(self, index, budget, keep):
        self.driver.admit(index, budget, keep_watermark=keep)

    @precondition(lambda self: self.driver.running)
    @rule(random=st.randoms(use_true_random=False), budget=st.integers(1, 40))
    def step(self, random, budget):
        self.driver.step(random, budget)

    @precondition(lambda self: self.driver.running)
    @rule(index=st.integers(0, 20))
    def finish(self, index):
        self.driver.finish(index)

    @precondition(lambda self: self.driver.running)
    @rule(index=st.integers(0, 20), swap=st.booleans())
    def preempt(self, index, swap):
        self.driver.preempt(self.driver.running[index % len(self.driver.running)], swap=swap)

    @precondition(lambda self: self.driver.swapped)
    @rule(index=st.integers(0, 20), budget=st.integers(1, 40))
    def swap_in(self, index, budget):
        self.driver.swap_in(index, budget)

    @invariant()
    def verify(self):
        self.driver.verify()


class HashMachine(PagedMachine):
    """With the prefixes of finished requests kept."""

    make = staticmethod(paged("hash"))


class BuddyMachine(PagedMachine):
    """Oracle reservations in a buddy pool of 60 = 32 + 16 + 8 + 4."""

    make = staticmethod(contiguous("oracle", "buddy"))


TestPagedMachine = PagedMachine.TestCase
TestHashMachine = HashMachine.TestCase
TestBuddyMachine = BuddyMachine.TestCase
TestPagedMachine.settings = TestHashMachine.settings = TestBuddyMachine.settings = settings(
    max_examples=30, stateful_step_count=40, deadline=None
)


def served(prompt: int, output: int, max_tokens: int | None = None, **more: Any) -> SequenceGroup:
    return SequenceGroup(request("r", prompt, output, 0.0, max_tokens, **more), order=0)


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
@pytest.mark.parametrize("width", [1, 3])
def test_what_each_policy_reserves_for_each_sequence(policy, prompt, output, reserved, width):
    allocator = ContiguousAllocator(15_728, policy, PLACEMENTS["first-fit"](15_728), 2048, EventLog())
    group = served(prompt, output, n=width)
    assert allocator.admit(group, prompt, keep_watermark=False) is GRANTED
    assert [length for _, length in allocator.ranges.values()] == [reserved] * width
    usage = allocator.usage([group])
    assert usage.live + usage.reserved + usage.internal == width * reserved
    assert usage.rounding == 0
    assert allocator.num_free_slots == 15_728 - width * reserved


def test_a_buddy_pool_holds_more_than_was_reserved():
    allocator = ContiguousAllocator(15_728, "pow2", PLACEMENTS["buddy"](15_728), 2048, EventLog())
    group = served(10, 25)
    allocator.admit(group, 10, keep_watermark=False)
    usage = allocator.usage([group])
    assert (usage.live + usage.reserved + usage.internal, usage.rounding) == (42, 64 - 42)
    assert allocator.num_free_slots == 15_728 - 64


def test_only_the_oracle_and_pow2_look_at_the_true_output():
    short, long = served(10, 3, 100), served(10, 90, 100)
    for policy, looks in {"max": False, "pow2": True, "oracle": True}.items():
        allocator = ContiguousAllocator(9999, policy, PLACEMENTS["buddy"](9999), 2048, EventLog())
        assert (allocator.reservation(short.request) != allocator.reservation(long.request)) == looks


def test_the_paged_pool_hands_out_the_first_block_of_the_last_freed_table_first():
    pool = BlockPool(6)
    assert pool.take(3) == ([0, 1, 2], [])
    assert pool.take(2) == ([3, 4], [])
    assert pool.drop([2, 1, 0]) == [2, 1, 0]  # a table is freed from its end
    assert pool.take(4) == ([0, 1, 2, 5], [])


def test_a_shared_block_is_free_when_its_last_owner_drops_it():
    pool = BlockPool(4)
    [block], _ = pool.take(1)
    pool.share(block)
    assert (pool.num_shared, pool.num_free) == (1, 3)
    assert pool.drop([block]) == []
    assert (pool.num_shared, pool.num_free) == (0, 3)
    assert pool.drop([block]) == [block]
    assert pool.num_free == 4
    with pytest.raises(AssertionError, match="block 0 freed twice"):
        pool.drop([block])


def test_a_paged_sequence_takes_a_block_only_when_its_last_one_is_full():
    """Paper figure 6: 7 prompt tokens in blocks of 4; the 8th fills the second, the 9th takes a third."""
    allocator = PagedAllocator(8, 4, EventLog())
    group = served(7, 5)
    [sequence] = group.sequences
    allocator.admit(group, 7, keep_watermark=False)
    sizes = []
    for sequence.stored in (7, 8, 9):
        sizes.append(len(allocator.tables[sequence]))
        allocator.grow(sequence, 1)
    assert sizes == [2, 2, 3]


def test_the_books_are_checked_against_a_lost_block_and_a_block_with_two_owners():
    allocator = PagedAllocator(4, 4, EventLog())
    group = served(7, 1)
    [sequence] = group.sequences
    allocator.admit(group, 7, keep_watermark=False)
    lost = allocator.tables[sequence].pop()
    with pytest.raises(AssertionError, match="block 1 has 0 owners, counted 1"):
        allocator.check()
    allocator.tables[sequence] += [lost, lost]
    with pytest.raises(AssertionError, match="block 1 has 2 owners, counted 1"):
        allocator.check()
    allocator.tables[sequence].pop()
    allocator.check()


def test_the_books_are_checked_against_a_free_list_that_lost_a_block():
    pool = BlockPool(4)
    pool._fresh.take(1, 0, None)
    with pytest.raises(AssertionError, match="3 blocks on the free lists, 4 without an owner"):
        pool.check([])


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_the_books_of_ranges_are_checked_too(placement):
    allocator = ContiguousAllocator(64, "oracle", PLACEMENTS[placement](64), 64, EventLog())
    one, two = served(8, 1), served(8, 1)
    allocator.admit(one, 8, keep_watermark=False)
    allocator.admit(two, 8, keep_watermark=False)
    allocator.check()
    allocator.ranges[two.sequences[0]] = allocator.ranges[one.sequences[0]]
    with pytest.raises(AssertionError, match="two owners"):
        allocator.check()


def test_a_block_table_takes_four_bytes_a_block_and_a_range_eight():
    pages = PagedAllocator(8, 4, EventLog())
    pages.admit(served(9, 1), 9, keep_watermark=False)
    assert pages.table_bytes() == 12
    ranges = ContiguousAllocator(64, "oracle", PLACEMENTS["buddy"](64), 64, EventLog())
    ranges.admit(served(9, 1), 9, keep_watermark=False)
    assert ranges.table_bytes() == 8


# Stories: faults that the machines above found.


def run_to(group: SequenceGroup, allocator: KVAllocator, num_tokens: int) -> None:
    """The first sequence stores so many more."""
    assert allocator.grow(group.sequences[0], num_tokens) is GRANTED
    group.sequences[0].stored += num_tokens


def forked(allocator: PagedAllocator, group: SequenceGroup) -> None:
    """Admits the group, stores its prompt and forks it."""
    prompt = group.request.prompt
    assert allocator.admit(group, prompt, keep_watermark=False) is GRANTED
    run_to(group, allocator, prompt)
    for sequence in group.sequences:
        sequence.stored, sequence.emitted = prompt, 1
    group.is_forked = True
    allocator.fork(group)


def recompute(allocator: PagedAllocator, group: SequenceGroup) -> None:
    allocator.release(group, "preempted")
    for sequence in group.sequences:
        sequence.stored = 0


def test_a_shared_prompt_that_is_computed_in_chunks_is_written_in_place():
    """Story: samples that came back in chunks shared the prompt's blocks while the first of them computed
    it. A chunk that began within a block found other owners and copied it away: they read an empty block.
    """
    allocator, group = PagedAllocator(8, 4, EventLog()), served(8, 3, n=2)
    forked(allocator, group)
    recompute(allocator, group)
    assert allocator.admit(group, 3, keep_watermark=False) is GRANTED
    first, other = group.sequences
    run_to(group, allocator, 3)
    run_to(group, allocator, 5)
    assert allocator.tables[first][:2] == allocator.tables[other][:2]
    assert allocator.traffic.copies == 0


def test_blocks_that_are_shared_but_not_yet_computed_are_swapped_too():
    """Story: such samples, swapped out between two chunks, came back with different blocks: the first
    sequence only had those that it had written.
    """
    allocator, group = PagedAllocator(8, 4, EventLog(), num_host_blocks=8), served(8, 3, n=2)
    forked(allocator, group)
    recompute(allocator, group)
    allocator.admit(group, 3, keep_watermark=False)
    run_to(group, allocator, 3)
    allocator.swap_out(group, "test")
    assert allocator.swap_in(group, [1, 0], "test") is GRANTED
    first, other = group.sequences
    assert allocator.tables[first][:2] == allocator.tables[other][:2]


@pytest.mark.parametrize("cache", PREFIX_CACHES)
def test_a_block_whose_step_never_ran_is_not_found(cache):
    """Story: a victim that was scheduled in the step already left blocks in the cache that nobody filled."""
    allocator, group = PagedAllocator(8, 4, EventLog(), cache=PREFIX_CACHES[cache]()), served(12, 1)
    allocator.admit(group, 6, keep_watermark=False)
    run_to(group, allocator, 6)
    allocator.grow(group.sequences[0], 6)  # and then it is chosen as the victim
    recompute(allocator, group)
    assert allocator.num_cached_slots == 4
    assert allocator.uncached_tokens(group) == 12 - 4


def test_a_beam_finds_its_prompt_again_but_not_what_another_beam_generated():
    """Story: beam 0 went on from beam 1 and came back after a preemption. Under its own name it found what
    it had generated before.
    """
    allocator, group = PagedAllocator(20, 2, EventLog(), cache=PREFIX_CACHES["hash"]()), served(4, 9, beam=2)
    forked(allocator, group)
    for _ in range(2):
        for sequence in group.sequences:
            allocator.grow(sequence, 1)
            sequence.stored, sequence.emitted = sequence.stored + 1, sequence.emitted + 1
    allocator.reorder(group, [1, 1])
    recompute(allocator, group)
    allocator.admit(group, 99, keep_watermark=False)
    assert group.sequences[0].stored == 4


def test_beams_may_change_places():
    """Story: with [1, 0] a beam gave up the names of its blocks before the other had taken them over."""
    allocator, group = PagedAllocator(20, 1, EventLog(), cache=PREFIX_CACHES["radix"]()), served(2, 9, beam=2)
    forked(allocator, group)
    for sequence in group.sequences:
        allocator.grow(sequence, 1)
        sequence.stored, sequence.emitted = 3, 2
    one, two = (allocator.tables[sequence] for sequence in group.sequences)
    assert one[:2] == two[:2]
    assert one[2] != two[2]
    for parents, tables in (([1, 0], [two, one]), ([1, 0], [one, two]), ([1, 1], [two, two])):
        allocator.reorder(group, parents)
        allocator.check()
        assert [allocator.tables[sequence] for sequence in group.sequences] == tables
    allocator.release(group, "finished")
    assert allocator.num_free_slots == 20


def test_beams_may_change_places_where_the_cache_knows_their_block_by_one_of_its_names():
    """Story: two beams shared a block when they came back from the host, and each had a name of its own for
    it. The cache took one name; a beam gave up the other before the first beam had taken it over.
    """
    cache = PREFIX_CACHES["hash"]()
    allocator = PagedAllocator(3, 2, EventLog(), num_host_blocks=3, cache=cache)
    group = served(1, 9, beam=2)
    forked(allocator, group)
    for sequence in group.sequences:
        allocator.grow(sequence, 1)
        sequence.stored, sequence.emitted = 2, 2
    allocator.reorder(group, [1, 1])
    allocator.swap_out(group, "test")
    assert allocator.swap_in(group, [1, 1], "test") is GRANTED
    one, two = (allocator.tables[sequence] for sequence in group.sequences)
    assert one[0] == two[0]
    for _ in range(2):
        allocator.reorder(group, [1, 0])
    allocator.release(group, "finished")
    assert allocator.num_free_slots == 6


def test_ids_of_blocks_of_different_sizes_are_different_contents():
    """Story: the first 4 tokens of a block of 5 were found by a request whose block of 4 had the same id."""
    allocator = PagedAllocator(8, 4, EventLog(), cache=PREFIX_CACHES["hash"]())
    ids = (1000, 7)
    fives = served(9, 1, blocks=ids, block_tokens=5)
    allocator.admit(fives, 9, keep_watermark=False)
    run_to(fives, allocator, 9)
    assert allocator.uncached_tokens(served(9, 1, blocks=ids, block_tokens=5)) == 9 - 8
    assert allocator.uncached_tokens(served(8, 1, blocks=ids, block_tokens=4)) == 8


def test_a_radix_tree_gives_up_a_parent_when_only_its_children_are_in_use():
    """Story: two requests computed the same prompt at once, the tree kept one's first block and the other's
    second. When the first had left, its block was free, had a child, and nothing could be taken any more.
    """
    allocator = PagedAllocator(4, 2, EventLog(), cache=PREFIX_CACHES["radix"]())
    early, late = (served(4, 1, tokens=(1, 2, 3, 4)) for _ in range(2))
    for group in (early, late):
        assert allocator.admit(group, 4, keep_watermark=False) is GRANTED
    run_to(early, allocator, 2)
    run_to(late, allocator, 4)
    allocator.release(early, "finished")
    assert allocator.num_free_slots == 4
    assert allocator.num_cached_slots == 2
    assert allocator.admit(served(3, 1), 3, keep_watermark=False) is GRANTED
    allocator.check()
