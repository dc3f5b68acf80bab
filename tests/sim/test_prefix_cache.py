"""What a prompt finds in the cache, and what it must not find."""

import copy
from dataclasses import replace
from typing import Any

import pytest

from sim import Config, Request, Trace, simulate
from sim.alloc import Granted, PagedAllocator, Short
from sim.cache import HashCache
from sim.events import EventLog, Kind
from sim.request import SequenceGroup
from tests.sim.witness import Witness


def request(id: str, tokens, output: int = 2, arrival: float = 0.0, **changes) -> Request:
    tokens = tuple(tokens)
    return Request(
        id=id,
        arrival_s=arrival,
        prompt=len(tokens),
        output=output,
        max_tokens=output,
        tokens=tokens,
        **changes,
    )


def run_of(*rows: Request, **dials):
    config = Config(**{"block_size": 4, "timing": "unit", "prefix_cache": "hash"} | dials)
    run = simulate(Trace("made", rows), config, check=True)
    Witness(run)
    return run


def hits(run) -> list[int]:
    return [group.hit_tokens for group in run.groups]


BOTH = pytest.mark.parametrize("kind", ["hash", "radix"])


@BOTH
@pytest.mark.parametrize(("length", "hit"), [(8, 4), (9, 8), (12, 8), (13, 12), (4, 0)])
def test_a_fully_cached_prompt_still_computes_a_token(kind, length, hit):
    run = run_of(
        request("a", range(length)),
        request("b", range(length), arrival=9.0),
        pool_blocks=20,
        prefix_cache=kind,
    )
    assert hits(run) == [0, hit]
    assert run.groups[1].prefills == [length - hit]


@BOTH
def test_a_request_hits_what_an_earlier_one_of_the_same_step_fills(kind):
    run = run_of(request("a", range(9)), request("b", range(9)), pool_blocks=20, prefix_cache=kind)
    assert hits(run) == [0, 8]
    assert run.groups[1].first_token_s == 1.0


@BOTH
def test_equal_hashes_of_different_tokens_never_share(kind):
    alike = 2**61 - 1  # Python hashes integers modulo this prime
    assert hash((0,) * 9) == hash((alike,) * 9)
    run = run_of(request("a", [0] * 9), request("b", [alike] * 9), pool_blocks=20, prefix_cache=kind)
    assert hits(run) == [0, 0]


def test_equal_tokens_after_different_ones_never_share():
    run = run_of(request("a", [1] * 4 + [7] * 5), request("b", [2] * 4 + [7] * 5), pool_blocks=20)
    assert hits(run) == [0, 0]


def pool_with(cached: SequenceGroup, num_blocks: int) -> PagedAllocator:
    """Blocks of 4; the cached request has been served and is gone."""
    allocator = PagedAllocator(num_blocks, 4, EventLog(), cache=HashCache())
    allocator.admit(cached, cached.num_pending, keep_watermark=False)
    allocator.grow(cached.sequences[0], cached.num_pending)
    cached.sequences[0].stored = cached.request.prompt
    allocator.release(cached, "finished")
    cached.sequences[0].stored = 0
    return allocator


def snapshot(allocator: PagedAllocator) -> dict[str, Any]:
    device = allocator.device
    return {
        "refs": list(device.num_refs),
        "fresh": list(device._fresh),
        "evictable": list(device._evictable),
        "tables": copy.copy(allocator.tables),
        "events": len(allocator._say._log.events),
        "cached": [block for block in range(device.num_blocks) if allocator._prefixes._cache.holds(block)],
    }


def test_hit_blocks_are_pinned_before_the_rest_is_counted_and_a_failed_admission_changes_nothing():
    # 4 blocks free, 2 of them cached. 17 tokens are 5 blocks: 2 hit and 3 new, but only 2 are left to take
    allocator = pool_with(SequenceGroup(request("a", range(8)), 0), 4)
    group = SequenceGroup(request("b", range(17)), 1)
    before = snapshot(allocator)
    assert allocator.uncached_tokens(group) == 9
    assert allocator.admit(group, 9, keep_watermark=False) == Short(3, 2)
    assert snapshot(allocator) == before
    assert group.sequences[0].stored == 0


def test_a_hit_takes_a_cached_block_out_of_the_free_ones():
    allocator = pool_with(SequenceGroup(request("a", range(8)), 0), 4)
    group = SequenceGroup(request("b", range(13)), 1)
    assert isinstance(allocator.admit(group, 5, keep_watermark=False), Granted)
    assert allocator.tables[group.sequences[0]][:2] == [0, 1]
    assert allocator.device.num_evictable == 0
    allocator.check()


def test_a_retry_does_not_count_its_hits_twice():
    # "b" hits 2 blocks but waits until "big" leaves; it tries to enter at every step
    rows = (
        request("a", range(9), output=1),
        request("big", range(100, 116), output=6, arrival=1.0),
        request("b", [*range(8), *range(50, 62)], output=2, arrival=2.0),
    )
    run = run_of(*rows, pool_blocks=9)
    assert run.groups[2].first_token_s == 8.0
    assert hits(run) == [0, 0, 8]
    assert run.report()["prefix"]["hit_tokens"] == 8
    assert sum(event.kind is Kind.HIT for event in run.events) == 1


def test_hits_of_a_resumed_request_are_not_added_to_those_of_its_first_admission():
    rows = (request("old", range(100, 104), output=20), request("b", range(13), output=12))
    run = run_of(*rows, pool_blocks=9)
    group = run.groups[1]
    assert group.preemptions > 0
    assert any(event.kind is Kind.HIT for event in run.events), "it hits its own old blocks"
    assert group.hit_tokens == 0


def test_a_block_of_an_unfinished_chunk_never_hits():
    allocator = PagedAllocator(20, 4, EventLog(), cache=HashCache(), max_chunk=10)
    first, second = SequenceGroup(request("a", range(32)), 0), SequenceGroup(request("b", range(32)), 1)
    allocator.admit(first, 10, keep_watermark=False)
    allocator.grow(first.sequences[0], 10)  # blocks 0 and 1, and half of block 2
    assert allocator.uncached_tokens(second) == 32 - 8


def test_a_block_of_a_chunk_that_was_preempted_before_it_ran_never_hits():
    """With another victim than the youngest, or several sequences of which one finds no room, a request may
    lose its memory after its chunk was scheduled. What the chunk would have filled stayed in the cache."""
    allocator = PagedAllocator(20, 4, EventLog(), cache=HashCache(), max_chunk=10)
    first, second = SequenceGroup(request("a", range(32)), 0), SequenceGroup(request("b", range(32)), 1)
    allocator.admit(first, 10, keep_watermark=False)
    allocator.grow(first.sequences[0], 10)
    first.sequences[0].stored = 10
    allocator.grow(first.sequences[0], 10)
    assert allocator.uncached_tokens(second) == 32 - 20
    allocator.release(first, "preempted")
    assert allocator.uncached_tokens(second) == 32 - 8
    allocator.check()


def test_a_block_that_only_drafts_fill_never_hits():
    allocator = PagedAllocator(20, 4, EventLog(), cache=HashCache())
    group = SequenceGroup(request("a", range(7), output=20), 0)
    allocator.admit(group, 7, keep_watermark=False)
    (sequence,) = group.sequences
    allocator.grow(sequence, 7)
    sequence.stored, sequence.emitted, sequence.input_tokens = 7, 1, 7
    allocator.grow(sequence, 1 + 6)  # [7, 8) is certain, [8, 14) are drafts
    table, holds = allocator.tables[sequence], allocator._prefixes._cache.holds
    assert [holds(block) for block in table] == [True, True, False, False]
    sequence.stored, sequence.emitted = 9, 3  # one draft accepted: block 2 is not full of accepted ones
    allocator.settle(sequence, 7, was_prefilling=False)
    assert [holds(block) for block in table] == [True, True, False, False]
    sequence.stored, sequence.emitted = 12, 6
    allocator.settle(sequence, 9, was_prefilling=False)
    assert [holds(block) for block in table] == [True, True, True, False]


def test_beams_that_come_back_hit_their_prompt_only():
    """A block that beam 0 wrote and left stays cached under its name; beam 0 may stand for another by now."""
    allocator = PagedAllocator(30, 2, EventLog(), cache=HashCache())
    group = SequenceGroup(request("a", range(4), output=9, beam=2), 0)
    allocator.admit(group, 4, keep_watermark=False)
    first, second = group.sequences
    allocator.grow(first, 4)
    for sequence in group.sequences:
        sequence.stored, sequence.emitted, sequence.input_tokens = 4, 2, 4
    group.is_forked = True
    allocator.fork(group)
    for stored in (5, 6):
        for sequence in group.sequences:
            allocator.grow(sequence, 1)
            sequence.stored, sequence.emitted = stored, stored - 2
    allocator.reorder(group, [1, 1])
    allocator.release(group, "preempted")
    first.stored = second.stored = 0
    assert allocator.uncached_tokens(group) == 2 * (8 - 4)
    first.request, group.is_forked = replace(first.request, beam=1), False
    assert allocator.uncached_tokens(group) == 8 - 6, "the block that beam 0 left is cached"
