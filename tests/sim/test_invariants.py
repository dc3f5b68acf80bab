"""Each allocator through 100,000 random operations under the numbered invariants; and that these bite."""

from collections import Counter
from random import Random
from typing import Any

import pytest

from sim import Config, simulate
from sim.alloc import ALLOCATORS, GRANTED, BlockPool
from sim.events import Kind, NullLog
from sim.invariants import INVARIANTS, Auditor, BrokenInvariant
from sim.request import Request, SequenceGroup
from sim.scheduler import Scheduler
from sim.serve import SimulatedExecutor, serve
from sim.timing import make_timing
from sim.veil import Peeked, VeiledRequest, veiled
from tests.making import content, request, requests

NUM_OPERATIONS = 100_000
POOL, MAX_LEN = 96, 24
DIALS: dict[str, dict[str, Any]] = {
    "paged": {"swap_blocks": 9, "preempt": "swap", "watermark": 0.1},
    "paged, hash": {"prefix_cache": "hash", "swap_blocks": 9, "preempt": "swap"},
    "paged, radix": {"prefix_cache": "radix", "swap_blocks": 9, "preempt": "swap"},
    "mixed": {"large_block_size": 8},
    "virtual": {"page_size": "256B"},
    "grow": {"compaction": "on-shortage", "placement": "first-fit"},
    "slab": {"placement": "best-fit"},
    "pow2": {"placement": "next-fit"},
    "oracle": {"placement": "worst-fit", "compaction": "on-shortage"},
}
NAMES = [*ALLOCATORS, *(name for name in DIALS if "," in name)]


def config_of(name: str) -> Config:
    allocator = name.partition(",")[0]
    return Config(
        allocator=allocator,
        model="tiny",
        pool_tokens=POOL,
        block_size=4,
        max_len=MAX_LEN,
        **DIALS.get(name, {}),
    )


class Storm:
    """Calls an allocator as a scheduler may, in any order, and tells the log what became of it."""

    def __init__(self, name: str) -> None:
        config = config_of(name)
        self.random = Random(name)
        self.requests: dict[str, Request] = {}
        self.log = Auditor(NullLog(), self.requests, config.slots_per_block)
        self.allocator = config.make_allocator(self.log)
        self.log.watch(self.allocator)
        self.waiting: list[SequenceGroup] = []
        self.running: list[SequenceGroup] = []
        self.swapped: list[SequenceGroup] = []
        self.counts: Counter[str] = Counter()

    def act(self) -> None:
        random = self.random
        kind = random.random()
        if self.swapped and kind < 0.1:
            self.swap_in(random.choice(self.swapped))
        elif self.running and kind < 0.8:
            self.go_on(random.choice(self.running))
        elif self.running and kind < 0.84:
            self.leave(random.choice(self.running))
        elif self.running and kind < 0.88:
            self.preempt(random.choice(self.running))
        else:
            self.admit()

    def count(self, operation: str) -> None:
        """After each call of the allocator, its own books are checked too."""
        self.counts[operation] += 1
        self.allocator.check()

    def admit(self) -> None:
        if not self.waiting:
            self.arrive()
        group = self.random.choice(self.waiting)
        num_tokens = min(self.allocator.uncached_tokens(group), self.random.choice((3, 99)))
        answer = self.allocator.admit(group, num_tokens, keep_watermark=self.random.random() < 0.5)
        self.count("admit")
        if answer is GRANTED:
            first = group.sequences[0]
            for sequence in group.active:
                sequence.input_tokens = sequence.stored + sequence.num_pending
            self.move(group, self.waiting, self.running)
            self.emit(Kind.ADMIT, group, tokens=num_tokens, hit=first.stored)
            if len(group.active) > 1 or num_tokens == group.num_pending:
                self.go_on(group)

    def arrive(self) -> None:
        random, id = self.random, f"r{len(self.requests)}"
        prompt, output = random.randint(1, 12), random.randint(1, 12)
        width = random.choice(({}, {}, {"n": 2}, {"n": 3}, {"beam": 2}, {"beam": 3}))
        made = request(id, prompt, output, 0.0, MAX_LEN - prompt, **width, **content(random, prompt))
        group = SequenceGroup(veiled(made), order=len(self.requests))
        self.requests[id] = made
        self.emit(Kind.ARRIVE, group, prompt=prompt, max_tokens=made.max_tokens, width=made.width)
        if self.allocator.never_fits(group.request):
            self.emit(Kind.REJECT, group, needed=1, available=0)
        else:
            self.waiting.append(group)

    def go_on(self, group: SequenceGroup) -> None:
        """All that the group's sequences have pending, if it fits; else it is preempted."""
        pending = [(sequence, sequence.num_pending) for sequence in group.active]
        for sequence, num_tokens in pending:
            answer = self.allocator.grow(sequence, num_tokens)
            self.count("grow")
            if answer is not GRANTED:
                self.preempt(group)
                return
        for sequence, num_tokens in pending:
            kind = Kind.PREFILL if sequence.is_prefilling else Kind.DECODE
            sequence.stored += num_tokens
            sequence.emitted += 1
            state = {"stored": sequence.stored, "emitted": sequence.emitted, "tokens": num_tokens}
            self.emit(kind, group, **state, **self.which(group, sequence.index))
        self.branch(group)
        if group.is_finished:
            self.leave(group)

    def branch(self, group: SequenceGroup) -> None:
        if not group.is_forked:
            first, *others = group.sequences
            for sequence in others:
                sequence.stored, sequence.emitted, sequence.input_tokens = first.stored, 1, first.input_tokens
            group.is_forked = True
            self.allocator.fork(group)
            self.count("fork")
        elif group.request.beam > 1 and not group.is_finished:
            beams = range(group.request.beam)
            self.allocator.reorder(group, self.random.choices(beams, k=len(beams)))
            self.count("reorder")

    def leave(self, group: SequenceGroup) -> None:
        self.move(group, self.running, None)
        self.emit(Kind.FINISH, group, emitted=group.emitted)
        self.allocator.release(group, "ended")
        self.count("release")

    def preempt(self, group: SequenceGroup) -> None:
        if self.random.random() < 0.5 and self.allocator.host_has_room(group):
            self.emit(Kind.PREEMPT, group, mode="swap", stored=0, emitted=0)
            self.allocator.swap_out(group, "test")
            self.move(group, self.running, self.swapped)
            self.count("swap out")
            return
        self.emit(Kind.PREEMPT, group, mode="recompute", stored=0, emitted=0)
        self.allocator.release(group, "preempted")
        self.count("release")
        self.move(group, self.running, self.waiting)
        for sequence in group.sequences:
            sequence.stored = sequence.input_tokens = 0

    def swap_in(self, group: SequenceGroup) -> None:
        answer = self.allocator.swap_in(group, [sequence.num_pending for sequence in group.active], "test")
        self.count("swap in")
        if answer is GRANTED:
            self.move(group, self.swapped, self.running)
            self.go_on(group)

    def move(self, group: SequenceGroup, old: list[SequenceGroup], new: list[SequenceGroup] | None) -> None:
        old.remove(group)
        if new is not None:
            new.append(group)

    def which(self, group: SequenceGroup, index: int) -> dict[str, int]:
        return {"sequence": index} if group.request.width > 1 else {}

    def emit(self, kind: Kind, group: SequenceGroup, **changes: Any) -> None:
        self.log.emit(kind, group.request.id, "test", **changes)

    def close_step(self) -> None:
        """What the ledger would say; the books are compared as a whole."""
        allocator = self.allocator
        usage = allocator.usage(self.running)
        cached = allocator.num_cached_slots
        ledger = {name: getattr(usage, name) for name in ("live", "reserved", "internal", "rounding")}
        ledger |= {"pool": POOL, "cached": cached, "external": 0, "free": allocator.num_free_slots - cached}
        self.log.emit(Kind.STEP, None, "test", ledger=ledger)
        self.log.step += 1


@pytest.mark.parametrize("name", NAMES)
def test_a_hundred_thousand_operations_break_no_invariant(name: str):
    storm = Storm(name)
    while storm.counts.total() < NUM_OPERATIONS:
        for _ in range(8):
            storm.act()
        storm.close_step()
    expected = {"admit", "grow", "fork", "reorder", "release"}
    expected |= {"swap out", "swap in"} if name.startswith("paged") else set()
    assert all(storm.counts[operation] > 500 for operation in expected), storm.counts
    for group in list(storm.running):
        storm.leave(group)
    assert storm.log.num_events > NUM_OPERATIONS / 2
    assert storm.allocator.num_free_slots == POOL


# That they bite: a story for each number, as somebody's mistake would tell it.

ARRIVE = ("arrive", "a", {"prompt": 4, "max_tokens": 4})
ADMIT = ("admit", "a", {"tokens": 4, "hit": 0})
OTHER = [("arrive", "b", {"prompt": 4, "max_tokens": 4}), ("admit", "b", {"tokens": 4, "hit": 0})]
LEDGER = {"pool": 16, "live": 4, "reserved": 0, "internal": 0, "rounding": 0, "cached": 0, "external": 0}
STORIES: list[tuple[int, str, list[tuple[str, str | None, dict[str, Any]]]]] = [
    (2, "frees what it never had", [ARRIVE, ("free", "a", {"blocks": [1]})]),
    (
        2,
        "frees a block that another request still reads",
        [
            ARRIVE,
            ("alloc", "a", {"blocks": [1]}),
            ADMIT,
            *OTHER,
            ("hit", "b", {"blocks": [1], "tokens": 4}),
            ("free", "a", {"blocks": [1]}),
        ],
    ),
    (2, "says that others hold what nobody holds", [ARRIVE, ("free", "a", {"blocks": [], "shared": [3]})]),
    (3, "hands a block out twice", [ARRIVE, *OTHER, *[("alloc", id, {"blocks": [1]}) for id in "ab"]]),
    (3, "hits what nobody stored", [ARRIVE, ("hit", "a", {"blocks": [1], "tokens": 4})]),
    (3, "copies a block that is not shared", [
        ARRIVE,
        ("alloc", "a", {"blocks": [1]}),
        ("copy", "a", {"source": 1, "destination": 2, "place": 0, "tokens": 2}),
    ]),
    (4, "finishes what never ran", [ARRIVE, ("finish", "a", {"emitted": 4})]),
    (5, "stores more than it has room for", [
        ARRIVE, ("alloc", "a", {"blocks": [1]}), ADMIT, ("prefill", "a", {"stored": 5, "emitted": 1})
    ]),
    (5, "emits more than it was asked to", [
        ARRIVE, ("alloc", "a", {"blocks": [1]}), ADMIT, ("decode", "a", {"stored": 4, "emitted": 5})
    ]),
    (6, "counts free slots that are held", [
        ARRIVE, ("alloc", "a", {"blocks": [1]}), ADMIT, ("step", None, {"ledger": LEDGER | {"free": 13}})
    ]),
    (6, "counts cached slots that are not", [
        ARRIVE,
        ("alloc", "a", {"blocks": [1]}),
        ADMIT,
        ("step", None, {"ledger": LEDGER | {"free": 8, "cached": 4}}),
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("number", "mistake", "story"), STORIES, ids=[story[1] for story in STORIES])
def test_a_log_that_breaks_an_invariant_is_stopped_by_its_number(number: int, mistake: str, story):
    known = {id: request(id, 4, 4) for id in "ab"}
    auditor = Auditor(NullLog(), known, slots_per_block=4)
    for kind, id, changes in story[:-1]:
        auditor.emit(Kind(kind), id, mistake, **changes)
    kind, id, changes = story[-1]
    with pytest.raises(BrokenInvariant) as broken:
        auditor.emit(Kind(kind), id, mistake, **changes)
    assert broken.value.number == number
    assert INVARIANTS[number] in str(broken.value)


def test_a_pool_that_loses_a_block_breaks_the_first(monkeypatch: pytest.MonkeyPatch):
    take = BlockPool.take

    def leaky(self: BlockPool, count: int, place: int = 0, after: int | None = None):
        taken = take(self, count, place, after)
        self._fresh.take(1, 0, None)
        return taken

    monkeypatch.setattr(BlockPool, "take", leaky)
    with pytest.raises(
        BrokenInvariant,
        match=r"invariant 1 \(held and free slots make up the pool\).* by (?:decode|admit|prefill) of r0",
    ):
        simulate(requests((8, 8)), Config(pool_blocks=20), check=True)


def test_two_ranges_that_overlap_break_the_third():
    auditor = Auditor(NullLog(), {id: request(id, 4, 4) for id in "ab"}, slots_per_block=None)
    for id, start in (("a", 0), ("b", 3)):
        auditor.emit(Kind.ARRIVE, id, "test", prompt=4, max_tokens=4)
        auditor.emit(Kind.ALLOC, id, "test", slots=[start, 4], reserved=4)
    with pytest.raises(BrokenInvariant, match=r"slots \[3, 4\) are in two ranges"):
        auditor.emit(Kind.STEP, None, "test", ledger=LEDGER | {"live": 8, "free": 8})


def test_queues_that_differ_from_the_log_break_the_fourth(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sim.scheduler.insort", lambda queue, group, key: queue.insert(0, group))
    with pytest.raises(BrokenInvariant, match="running is \\['r1', 'r0'\\], by the log \\['r0', 'r1'\\]"):
        simulate(requests((8, 8), (8, 8)), Config(pool_blocks=20), check=True)


class ShortestFirst(Scheduler):
    """Admits by the true output length: what no server can."""

    def _admit(self, batch) -> None:
        self.waiting = type(self.waiting)(sorted(self.waiting, key=lambda group: group.request.output))
        super()._admit(batch)


def test_a_scheduler_that_looks_at_the_true_output_length_breaks_the_seventh(monkeypatch):
    config = Config()
    monkeypatch.setitem(ShortestFirst._admit.__globals__, "__name__", "sim.shortest")
    executor = SimulatedExecutor(make_timing(config))
    with pytest.raises(Peeked, match="looks at the true output length of r0"):
        serve(
            requests((8, 8), (8, 4)),
            config,
            executor,
            NullLog(),
            source="simulated",
            clock="modelled",
            rules=ShortestFirst,
            check=True,
        )


def test_a_veiled_request_is_the_request_for_everyone_who_may_look():
    plain = request("r", 7, 5, n=2)
    guarded = veiled(plain)
    assert isinstance(guarded, VeiledRequest)
    assert (guarded.output, guarded.final_tokens, guarded.width, guarded.id) == (5, 11, 2, "r")
