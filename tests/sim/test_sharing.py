"""Sequences of one request share blocks: the paper's Figures 6, 8 and 9, copies, preemption, the saving."""

import pytest

from sim import Config, Request, Trace, simulate
from sim.alloc import GRANTED, PagedAllocator
from sim.events import EventLog, Kind
from sim.horizon import SlidingWindow
from sim.request import SequenceGroup


def request(id: str = "r", prompt: int = 7, output: int = 4, arrival: float = 0.0, **changes) -> Request:
    return Request(id=id, arrival_s=arrival, prompt=prompt, output=output, max_tokens=output, **changes)


def run_of(*rows: Request, **dials):
    return simulate(Trace("made", rows), Config(**{"block_size": 4, "timing": "unit"} | dials), check=True)


def events(run, kind: Kind):
    return [event for event in run.events if event.kind is kind]


def test_figure_6_a_block_is_taken_only_when_the_last_one_is_full():
    run = run_of(request(prompt=7, output=4), pool_blocks=8)
    assert [len(run.at(step).block_tables["r"]) for step in (1, 2, 3)] == [2, 2, 3]
    assert [run.at(step).stored["r"] for step in (1, 2, 3)] == [7, 8, 9]


def test_figure_8_the_first_writer_copies_and_the_second_writes_in_place():
    run = run_of(request(prompt=7, n=2), pool_blocks=8)
    before, after = run.at(1), run.at(2)
    assert before.block_tables == {"r/0": [0, 1], "r/1": [0, 1]}
    assert before.ref_counts() == {0: 2, 1: 2}
    assert after.block_tables == {"r/0": [0, 2], "r/1": [0, 1]}
    assert after.ref_counts() == {0: 2, 1: 1, 2: 1}
    (copy,) = events(run, Kind.COPY)
    assert copy.changes == {"sequence": 0, "source": 1, "destination": 2, "place": 1, "tokens": 3}


@pytest.mark.parametrize(("prompt", "copies"), [(7, 3), (8, 0), (1, 3), (4, 0), (5, 3)])
def test_four_samples_make_three_copies_unless_the_prompt_fills_its_blocks(prompt, copies):
    report = run_of(request(prompt=prompt, n=4), pool_blocks=30).report()
    assert report["copies"] == copies


def figure_9(log: EventLog) -> tuple[PagedAllocator, SequenceGroup]:
    """Beam candidates 0 to 3 with tables {0,1,3,5} {0,1,3,6} {0,1,3,7} {0,2,4,8}, all blocks full."""
    allocator = PagedAllocator(13, 4, log)
    group = SequenceGroup(request(prompt=4, output=20, beam=4), 0)
    group.is_forked = True
    assert allocator.device.take(9)[0] == list(range(9))
    for block in (0, 0, 0, 1, 1, 3, 3):
        allocator.device.share(block)
    tables = [[0, 1, 3, 5], [0, 1, 3, 6], [0, 1, 3, 7], [0, 2, 4, 8]]
    for sequence, table in zip(group.sequences, tables, strict=True):
        sequence.stored, sequence.emitted, sequence.input_tokens = 16, 13, 4
        allocator.tables[sequence] = table
    allocator.check()
    return allocator, group


def test_figure_9_reordering_frees_exactly_blocks_2_4_5_and_8():
    log = EventLog()
    allocator, group = figure_9(log)
    allocator.reorder(group, [1, 1, 2, 2])
    (freed,) = [event.changes["blocks"] for event in log if event.kind is Kind.FREE]
    assert sorted(freed) == [2, 4, 5, 8]
    for sequence in group.sequences:
        allocator.grow(sequence, 1)
    allocator.check()
    new = [allocator.tables[sequence][4] for sequence in group.sequences]
    refs = allocator.device.num_refs
    assert len(set(new)) == 4
    assert [refs[block] for block in (0, 1, 3, 6, 7, *new)] == [4, 4, 4, 2, 2, 1, 1, 1, 1]
    assert [allocator.tables[sequence][:4] for sequence in group.sequences] == [
        [0, 1, 3, 6], [0, 1, 3, 6], [0, 1, 3, 7], [0, 1, 3, 7],
    ]  # fmt: skip


def test_a_beam_that_keeps_its_place_changes_nothing():
    log = EventLog()
    allocator, group = figure_9(log)
    allocator.reorder(group, [0, 1, 2, 3])
    assert not log.events


def test_preempting_a_request_of_several_sequences_frees_each_block_once():
    # 3 samples share two prompt blocks; the older request grows until the younger one has to go
    rows = (request("old", 4, 30), request("many", 8, 10, n=3))
    run = run_of(*rows, pool_blocks=13)
    (preempt,) = events(run, Kind.PREEMPT)[:1]
    assert preempt.request == "many"
    held = run.at(preempt.step - 1).block_tables
    unique = {block for name, table in held.items() if name.startswith("many") for block in table}
    shared = {block for block in unique if sum(block in table for table in held.values()) > 1}
    assert shared, "nothing was shared: this would prove nothing"
    freed = [
        block
        for event in events(run, Kind.FREE)
        if event.step == preempt.step and event.request == "many"
        for block in event.changes["blocks"]
    ]
    assert len(freed) == len(set(freed))
    assert unique <= set(freed)


def test_a_request_that_comes_back_in_chunks_fills_the_shared_prompt_once_for_all():
    """Its first sequence used to copy blocks half filled by itself: the others kept the empty ones."""
    rows = (request("old", 4, 40), request("many", 22, 30, n=3))
    run = run_of(*rows, pool_blocks=30, chunked_prefill=True, max_batch_tokens=7)
    (preempt,) = events(run, Kind.PREEMPT)[:1]
    back = next(event for event in events(run, Kind.ADMIT) if event.step > preempt.step)
    copies = [event for event in events(run, Kind.COPY) if event.step >= back.step]
    assert all(event.changes["place"] >= 22 // 4 for event in copies)
    tables = [run.at(back.step + 4).block_tables[f"many/{index}"] for index in range(3)]
    assert tables[0][:5] == tables[1][:5] == tables[2][:5]
    # what the first has not filled yet is held, but not live ("old" has left)
    first = run.at(back.step)
    assert first.ledger["live"] == first.stored["many/0"]


def coming_back(**memory) -> tuple[PagedAllocator, SequenceGroup]:
    """Two samples of a prompt of 12 in blocks of 2, with 3 tokens emitted, after their first chunk of 5."""
    allocator = PagedAllocator(40, 2, EventLog(), max_chunk=5, **memory)
    group = SequenceGroup(request(prompt=12, output=9, n=2), 0)
    group.is_forked = True
    for sequence in group.sequences:
        sequence.emitted, sequence.input_tokens = 3, 15
    assert allocator.admit(group, 5, keep_watermark=False) == GRANTED
    first = group.sequences[0]
    assert allocator.grow(first, 5) == GRANTED
    first.stored = 5
    allocator.check()
    return allocator, group


def test_those_that_come_back_do_not_hold_what_their_window_has_passed():
    allocator, group = coming_back(horizon=SlidingWindow(4))
    # the second goes on at 12 and reads from 9 on: of the shared prompt, blocks 4 and 5
    assert [allocator.tables[sequence] for sequence in group.sequences] == [
        [0, 1, 2, 3, 4, 5, 6, 7], [-1, -1, -1, -1, 4, 5, 8, 9],
    ]  # fmt: skip


def test_those_that_are_swapped_while_they_come_back_still_share_the_prompt():
    """The first has filled 5 of 12 tokens; the rest of the prompt is empty, but it is the other's as well."""
    allocator, group = coming_back(num_host_blocks=20)
    allocator.swap_out(group, "test")
    assert allocator.swap_in(group, [5, 0], "test") == GRANTED
    first, second = (allocator.tables[sequence] for sequence in group.sequences)
    assert first[:6] == second[:6]
    allocator.check()


def test_the_saving_is_blocks_saved_over_blocks_without_sharing_weighted_by_time():
    # prompt 8 = 2 shared blocks; 1 step with 2 tables of the same 2, then 4 steps with 1 own block each
    report = run_of(request(prompt=8, output=5, n=2), pool_blocks=8).report()
    without = (1 * 4 + 4 * 6) / 5
    blocks = (1 * 2 + 4 * 4) / 5
    assert report["sharing"]["blocks_without_sharing"] == without
    assert report["sharing"]["saved_blocks"] == without - blocks
    assert report["sharing"]["saved_percent"] == pytest.approx(100 * 2 * 5 / 28)


def test_nothing_is_saved_where_nothing_is_shared():
    assert run_of(request(), pool_blocks=8).report()["sharing"]["saved_percent"] == 0.0
    alone = simulate(Trace("made", (request(),)), Config(allocator="max", timing="unit"))
    assert alone.report()["sharing"] == {
        "blocks_without_sharing": 0.0, "saved_blocks": 0.0, "saved_percent": 0.0,
    }  # fmt: skip
