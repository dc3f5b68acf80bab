"""`run.at(step)` from the log alone is what scheduler and allocator really held at that step."""

from dataclasses import asdict
from random import Random

import numpy as np
import pytest

from sim import Config, InputError, Request, Trace, simulate
from sim.alloc import PagedAllocator, VirtualAllocator
from sim.alloc.swap import unique
from sim.replay import KEYFRAME_STEPS, SlotRange
from tests.making import random_dials, random_rows, random_trace, requests


def live(scheduler) -> dict:
    """What the replay must find, taken from the live objects."""
    allocator = scheduler.allocator
    host, cached = {}, set()
    if isinstance(allocator, VirtualAllocator):
        tables = {s.name: list(table) for s, table in allocator.tables.items() if table}
    elif isinstance(allocator, PagedAllocator):
        tables = {s.name: list(table) for s, table in allocator.tables.items()}
        host = {g.request.id: unique(allocator.host.tables_of(g)) for g in scheduler.swapped}
        cached = set(allocator.device._evictable)
    else:
        tables = {
            s.name: SlotRange(start, allocator.placement.rounded(length), length)
            for s, (start, length) in allocator.ranges.items()
        }
    queues = {name: getattr(scheduler, name) for name in ("waiting", "running", "swapped")}
    everyone = [s for queue in queues.values() for group in queue if group.prefills for s in group.active]
    return {
        "block_tables": tables,
        "host_tables": host,
        "cached": cached,
        **{name: [group.request.id for group in queue] for name, queue in queues.items()},
        "stored": {s.name: s.stored for s in everyone},
        "emitted": {s.name: s.emitted for s in everyone},
    }


def replayed(state) -> dict:
    names = ("block_tables", "host_tables", "waiting", "running", "swapped", "stored", "emitted")
    return {"cached": set(state.cached), **{name: getattr(state, name) for name in names}}


@pytest.mark.parametrize("seed", range(30))
def test_the_log_alone_rebuilds_every_table_and_queue(watched, seed):
    random = Random(seed)
    trace = random_trace(random, 30)
    run, seen = watched(trace, Config(**random_dials(random)), live)
    steps = list(range(1, run.num_steps + 1))
    assert [replayed(run.at(step)) for step in steps] == seen
    random.shuffle(steps)
    assert all(replayed(run.at(step)) == seen[step - 1] for step in steps[:40])
    ledger = [run.at(step).ledger for step in sorted(steps)]
    assert [entry["live"] for entry in ledger] == run.series.column("live").tolist()


def test_who_is_older_is_known_from_any_keyframe(watched):
    """Story: keyframes shared one dict of ages, and looking at a later step renumbered the arrivals in it.

    A recomputed request that came back behind a younger, resumed one then stood at the wrong place.
    """
    random = Random(7)
    trace = requests(*random_rows(random, 60, span_s=150))
    dials = {"pool_blocks": 16, "block_size": 4, "preempt": "swap", "swap_blocks": 5}
    config = Config(timing="unit", chunked_prefill=True, max_batch_tokens=20, **dials)
    run, seen = watched(trace, config, lambda scheduler: [group.request.id for group in scheduler.running])
    assert run.num_steps > 3 * KEYFRAME_STEPS
    assert run.num_preemptions > 20
    assert [run.at(step).running for step in range(1, run.num_steps + 1)] == seen


def test_a_range_that_was_given_back_is_gone():
    """Story: the table of a contiguous request stayed on the map for ever after it had finished."""
    run = simulate(requests((8, 1), (8, 1, 5.0)), Config(timing="unit", allocator="oracle", pool_tokens=16))
    assert run.at(2).block_tables == {"r1": SlotRange(0, 8, 8)}


def long_run():
    return simulate(
        requests(*random_rows(Random(2), 40, span_s=100)), Config(timing="unit", pool_blocks=20, block_size=4)
    )


def test_stepping_back_is_the_same_as_stepping_forward():
    run = long_run()
    assert run.num_steps > 2 * KEYFRAME_STEPS
    steps = range(run.num_steps + 1)
    forward = [asdict(run.at(step)) for step in steps]
    backward = [asdict(run.at(step)) for step in reversed(steps)]
    for state in (*forward, *backward):
        del state["order"]  # who has arrived later is known once it was looked at
    assert forward == backward[::-1]


@pytest.mark.parametrize(
    "step", [1, KEYFRAME_STEPS - 1, KEYFRAME_STEPS, KEYFRAME_STEPS + 1, 2 * KEYFRAME_STEPS]
)
def test_keyframes_cannot_be_told_from_the_steps_between(step, watched):
    trace, config = (
        requests(*random_rows(Random(2), 40, span_s=100)),
        Config(timing="unit", pool_tokens=80, block_size=4),
    )
    run, seen = watched(trace, config, live)
    state = run.at(step)
    assert (state.step, state.time) == (step, run.series.column("time")[step - 1])
    assert replayed(state) == seen[step - 1]


def test_a_state_that_was_looked_at_is_not_changed_by_looking_at_others():
    run = long_run()
    state = run.at(70)
    before = asdict(state)
    for step in (69, 71, 128, 1, 70):
        run.at(step)
    after = asdict(state)
    del before["order"], after["order"]
    assert before == after


def test_all_states_in_one_pass_are_those_of_each_step():
    run = long_run()
    for step, state in enumerate(run.replay.states(), start=1):
        assert replayed(state) == replayed(run.at(step))


def test_step_0_is_before_anything_and_steps_outside_are_refused():
    run = simulate(requests((8, 3)), Config(timing="unit"))
    assert run.at(0).running == run.at(0).waiting == []
    for step in (-1, 4):
        with pytest.raises(InputError, match=rf"step {step}: the run has steps 1 to 3"):
            run.at(step)
        with pytest.raises(InputError, match=rf"step {step}: the run has steps 1 to 3"):
            run.replay.events_of(step)
    assert run.replay.events_of(0) == []


def test_a_run_without_events_says_so():
    run = simulate(requests((8, 3)), Config(timing="unit"), record=False)
    with pytest.raises(InputError, match="kept no events"):
        run.at(1)


def test_the_events_of_a_step_lead_from_the_state_before_to_its_own():
    run = long_run()
    state = run.at(0)
    for step in range(1, run.num_steps + 1):
        for event in run.replay.events_of(step):
            state.apply(event)
        assert replayed(state) == replayed(run.at(step))


@pytest.mark.parametrize("seed", range(12))
def test_at_the_end_nobody_holds_anything_and_what_is_cached_stays(watched, seed):
    random = Random(seed)
    trace, config = random_trace(random, 25), Config(**random_dials(random))
    run, seen = watched(trace, config, lambda scheduler: scheduler)
    end, scheduler = run.replay.at_end(), seen[-1]
    assert (end.step, end.time) == (run.num_steps, run.time_s)
    assert replayed(end) == live(scheduler)
    assert end.block_tables == end.host_tables == end.stored == end.emitted == {}
    assert end.waiting == end.running == end.swapped == []
    assert len(end.cached) * config.block_size == scheduler.allocator.num_cached_slots


@pytest.mark.parametrize("seed", range(12))
def test_the_events_of_all_steps_and_those_after_the_end_are_the_whole_log(seed):
    random = Random(seed)
    run = simulate(random_trace(random, 25), Config(**random_dials(random)))
    parts = [run.replay.events_of(step) for step in range(run.num_steps + 1)]
    after = run.replay.events_after_end()
    assert [*(event for part in parts for event in part), *after] == run.events
    assert {str(event.kind) for event in after} == {"finish", "free"}
    state = run.at(run.num_steps)
    for event in after:
        state.apply(event)
    assert replayed(state) == replayed(run.replay.at_end())


def test_a_run_without_steps_ends_with_its_rejections():
    run = simulate(requests((999, 1)), Config(timing="unit", pool_blocks=4))
    assert run.num_steps == 0
    assert [str(event.kind) for event in run.replay.events_after_end()] == ["arrive", "reject"]
    assert run.replay.at_end().waiting == []


def test_sequences_of_one_request_have_tables_of_their_own_from_the_first_fork_on():
    made = Request(id="a", arrival_s=0.0, prompt=5, output=3, max_tokens=3, n=2)
    run = simulate(Trace("t", (made,)), Config(timing="unit", pool_blocks=8, block_size=4))
    assert [run.at(step).block_tables for step in (1, 2, 3)] == [
        {"a/0": [0, 1], "a/1": [0, 1]},  # forked when the prompt was stored
        {"a/0": [0, 2], "a/1": [0, 1]},  # the first to write copies, the last owner need not
        {"a/0": [0, 2], "a/1": [0, 1]},
    ]
    assert run.at(1).ref_counts() == {0: 2, 1: 2}
    assert run.at(2).ref_counts() == {0: 2, 1: 1, 2: 1}
    assert run.at(2).stored == {"a/0": 6, "a/1": 6}
    assert run.at(2).emitted == {"a/0": 2, "a/1": 2}
    assert run.at(2).slots("a/0", 4).tolist() == [0, 1, 2, 3, 8, 9]
    assert np.flatnonzero(run.at(2).written(32, 4)).tolist() == [*range(6), 8, 9]
    assert run.replay.at_end().block_tables == {}


@pytest.mark.parametrize("allocator", ["paged", "oracle"])
def test_forked_sequences_have_emitted_what_their_first_one_has(allocator):
    """Story: the range of a forked sequence was copied, and `emitted` knew nothing of it for one step."""
    made = Request(id="a", arrival_s=0.0, prompt=5, output=3, max_tokens=3, n=2)
    run = simulate(Trace("t", (made,)), Config(timing="unit", allocator=allocator, pool_tokens=64))
    assert [run.at(step).emitted for step in (1, 2, 3)] == [{"a/0": n, "a/1": n} for n in (1, 2, 3)]


def test_stored_tokens_lie_in_the_slots_of_the_table_in_order():
    run = simulate(requests((4, 5), (6, 2)), Config(timing="unit", pool_blocks=8, block_size=4))
    state = run.at(2)
    assert state.block_tables == {"r0": [0, 3], "r1": [1, 2]}
    assert state.slots("r0", 4).tolist() == [0, 1, 2, 3, 12]
    assert state.slots("r1", 4).tolist() == [4, 5, 6, 7, 8, 9, 10]
    assert np.flatnonzero(state.written(32, 4)).tolist() == [*range(11), 12]


def test_stored_tokens_lie_in_the_range_of_a_contiguous_request():
    run = simulate(
        requests((4, 5), (6, 2)),
        Config(timing="unit", allocator="oracle", placement="first-fit", pool_tokens=32),
    )
    state = run.at(2)
    assert state.block_tables == {"r0": SlotRange(0, 8, 8), "r1": SlotRange(8, 7, 7)}
    assert state.slots("r1", 16).tolist() == [8, 9, 10, 11, 12, 13, 14]
    assert np.flatnonzero(state.written(32, 16)).tolist() == [*range(5), *range(8, 15)]


@pytest.mark.parametrize("seed", range(10))
def test_as_many_slots_are_written_as_are_live_or_cached(seed):
    random = Random(seed)
    config = Config(**random_dials(random))
    run = simulate(random_trace(random, 25), config)
    for step in range(1, run.num_steps + 1):
        state = run.at(step)
        written = state.written(config.num_slots, config.slots_per_block or 1).sum()
        assert written == state.ledger["live"] + state.ledger["cached"]
