"""What happens on a shortage: the youngest gives up its memory, and gets it back (DESIGN section 3)."""

import pytest

from sim import Config, Request, Run, Trace, simulate
from tests.making import requests


def unit(trace, **dials) -> Run:
    return simulate(trace, Config(timing="unit", **dials), check=True)


def finishes(run: Run) -> list[float | None]:
    return [group.finish_s for group in run.groups]


def preemptions(run: Run) -> dict[str, int]:
    return {group.request.id: group.preemptions for group in run.groups if group.preemptions}


def test_three_requests_in_six_blocks_preempt_the_third_once():
    run = unit(requests((8, 4), (8, 4), (8, 4)), pool_blocks=6, block_size=4)
    assert preemptions(run) == {"r2": 1}
    assert run.num_preemptions == 1
    assert run.groups[2].prefills == [8, 9]  # it comes back with its prompt and the token it had emitted
    assert finishes(run) == [4.0, 4.0, 7.0]
    assert run.free_at_end == 24


def test_a_preemption_says_who_needed_what_and_why_this_victim():
    run = unit(requests((8, 4), (8, 4), (8, 4)), pool_blocks=6, block_size=4)
    [event] = [event for event in run.events if event.kind == "preempt"]
    assert event.request == "r2"
    assert event.why == "r0 needs 1 block, 0 free; request r2 is the youngest running request"
    assert event.changes == {"mode": "recompute", "stored": 8, "emitted": 1}
    assert (event.step, event.time) == (2, 1.0)


def test_a_recomputed_request_goes_on_with_the_token_after_its_last():
    run = unit(requests((8, 4), (8, 4), (8, 4)), pool_blocks=6, block_size=4)
    emitted = [
        e.changes["emitted"] for e in run.events if e.request == "r2" and e.kind in ("prefill", "decode")
    ]
    assert emitted == [1, 2, 3, 4]


def test_nobody_comes_back_in_a_step_that_preempted():
    """Step 5 swaps r2 out. Step 6 drops r1, the host being full: r2 would fit at once, but must wait."""
    config = {"pool_blocks": 4, "block_size": 4, "preempt": "swap", "swap_blocks": 1}
    run = unit(requests((1, 8), (4, 8), (1, 8)), **config)
    steps = {kind: [e.step for e in run.events if e.kind == kind] for kind in ("preempt", "swap_in", "admit")}
    assert steps["preempt"] == [5, 6]
    assert steps["swap_in"] == [7]
    assert not set(steps["preempt"]) & set(steps["admit"])


def test_nobody_new_is_admitted_in_a_step_that_preempted():
    # Step 2 preempts r1 and leaves 1 block free, enough for r2, which is behind r1 and waits with it.
    run = unit(requests((8, 2), (8, 2), (4, 1, 1.0)), pool_blocks=4, block_size=4)
    assert preemptions(run) == {"r1": 1}
    assert [e.step for e in run.events if e.kind == "admit"] == [1, 1, 3, 3]
    assert finishes(run) == [2.0, 3.0, 3.0]


def test_a_preempted_request_returns_before_those_that_never_ran():
    run = unit(requests((8, 4), (8, 4), (8, 4), (4, 1)), pool_blocks=6, block_size=4)
    admitted = [event.request for event in run.events if event.kind == "admit"]
    assert admitted == ["r0", "r1", "r2", "r2", "r3"]


def test_the_request_that_needs_memory_may_be_its_own_victim():
    # r0 takes the last free block at step 2, so that r1, the youngest, finds none.
    run = unit(requests((8, 4), (8, 4)), pool_blocks=5, block_size=4)
    [event] = [event for event in run.events if event.kind == "preempt"]
    assert (event.request, event.why.split()[0]) == ("r1", "r1")
    assert finishes(run) == [4.0, 7.0]


def test_one_step_may_take_several_victims_youngest_first_and_they_return_oldest_first():
    # Blocks of 1 slot, all 4 held at step 2: r0 gets r3's, r1 gets r2's.
    run = unit(requests((1, 4), (1, 4), (1, 4), (1, 4)), pool_blocks=4, block_size=1)
    victims = [(event.step, event.request) for event in run.events if event.kind == "preempt"]
    assert victims[:2] == [(2, "r3"), (2, "r2")]
    assert run.at(2).running == ["r0", "r1"]
    assert run.at(2).waiting == ["r2", "r3"]


def test_age_is_the_order_of_arrival_whatever_the_order_of_admission(watched):
    """The host has room for r2 only, so r1 is recomputed: r2 is back first, and still the youngest."""
    config = Config(timing="unit", pool_blocks=6, block_size=4, preempt="swap", swap_blocks=1)
    run, running = watched(
        requests((2, 8), (6, 8), (1, 8)), config, lambda s: [x.request.id for x in s.running]
    )
    back = [(e.kind, e.request, e.step) for e in run.events if e.kind in ("swap_in", "admit")][3:]
    assert [entry[:2] for entry in back[:2]] == [("swap_in", "r2"), ("admit", "r1")]
    assert running[back[1][2] - 1][-2:] == ["r1", "r2"]


def test_the_victim_is_the_youngest_of_those_running():
    run = unit(requests((4, 20), (4, 20), (4, 20)), pool_blocks=9, block_size=4)
    events = [event for event in run.events if event.kind == "preempt"]
    assert events
    for event in events:
        assert event.request == max(run.at(event.step - 1).running)


def test_a_request_alone_always_gets_to_its_end():
    run = unit(requests((1, 64), (1, 64)), pool_blocks=4)
    assert finishes(run)[0] == 64.0
    assert run.groups[0].preemptions == 0


def test_two_blocks_go_out_to_the_host_and_two_come_back():
    run = unit(requests((8, 8), (8, 8)), pool_blocks=4, block_size=4, preempt="swap", swap_blocks=4)
    assert (run.traffic.swapped_out_blocks, run.traffic.swapped_in_blocks) == (2, 2)
    assert finishes(run) == [8.0, 15.0]
    assert [group.prefills for group in run.groups] == [[8], [8]]
    assert run.free_at_end == 16


def test_a_swap_writes_its_copies_with_both_sides_into_the_log():
    run = unit(requests((8, 8), (8, 8)), pool_blocks=4, block_size=4, preempt="swap", swap_blocks=4)
    moves = [(e.kind, e.changes) for e in run.events if e.kind in ("swap_out", "free", "alloc", "swap_in")]
    out = next(index for index, (kind, _) in enumerate(moves) if kind == "swap_out")
    assert moves[out] == ("swap_out", {"blocks": [2, 3], "host_blocks": [0, 1]})
    assert moves[out + 1] == ("free", {"blocks": [3, 2]})
    back = next(index for index, (kind, _) in enumerate(moves) if kind == "swap_in")
    kind, changes = moves[back - 1]
    assert kind == "alloc"
    assert len(changes["blocks"]) == 2
    assert moves[back] == ("swap_in", {"blocks": changes["blocks"], "host_blocks": [0, 1]})
    kind, more = moves[back + 1]
    assert (kind, len(more["blocks"])) == ("alloc", 1)  # the ninth token's


def test_a_step_is_charged_for_the_blocks_that_it_swaps(tmp_path):
    costs = tmp_path / "costs.json"
    costs.write_text('{"seconds": {"step": 1, "swapped_block": 0.25}}')
    config = Config(pool_blocks=4, block_size=4, preempt="swap", swap_blocks=4, timing=str(costs))
    run = simulate(requests((8, 8), (8, 8)), config)
    slow = {index + 1: seconds for index, seconds in enumerate(run.series.column("duration")) if seconds != 1}
    assert slow == {2: 1.5, 9: 1.5}


def test_host_memory_is_as_large_as_the_pool_when_not_said():
    run = unit(requests((8, 8), (8, 8)), pool_blocks=4, block_size=4, preempt="swap")
    assert run.traffic.swapped_out_blocks == 2


def test_a_victim_that_host_memory_cannot_hold_is_recomputed_and_the_log_says_so():
    run = unit(requests((8, 8), (8, 8)), pool_blocks=4, block_size=4, preempt="swap", swap_blocks=1)
    [event] = [event for event in run.events if event.kind == "preempt"]
    assert event.changes["mode"] == "recompute"
    assert "host memory is full" in event.why
    assert run.traffic.swapped_out_blocks == 0
    assert run.groups[1].prefills == [8, 9]


def test_no_host_memory_at_all_is_recompute():
    rows = requests((8, 8), (8, 8), (3, 9, 2.0))
    swap = unit(rows, pool_blocks=4, block_size=4, preempt="swap", swap_blocks=0)
    recompute = unit(rows, pool_blocks=4, block_size=4)
    assert finishes(swap) == finishes(recompute)


def test_while_somebody_is_swapped_nobody_new_is_admitted():
    # r1 is out from step 2 to 8; r2 (1 block) would fit beside r0 until r0 takes its fourth.
    run = unit(
        requests((8, 8), (8, 8), (1, 1, 1.0)), pool_blocks=4, block_size=4, preempt="swap", swap_blocks=4
    )
    steps = {(event.kind, event.request): event.step for event in run.events if event.request}
    assert run.at(3).swapped == ["r1"]
    assert (steps["swap_in", "r1"], steps["admit", "r2"]) == (9, 9)


def test_swapped_requests_come_back_oldest_first():
    rows = [(4, 12)] * 5
    run = unit(requests(*rows), pool_blocks=8, block_size=4, preempt="swap")
    outside: set[str] = set()
    for event in run.events:
        if event.kind == "swap_out":
            outside.add(event.request)
        elif event.kind == "swap_in":
            assert event.request == min(outside)
            outside.remove(event.request)
    assert run.traffic.swapped_in_blocks == run.traffic.swapped_out_blocks > 0


def test_reservations_made_in_full_are_never_preempted():
    rows = requests(*[(8, 8)] * 9)
    for allocator in ("max", "pow2", "oracle"):
        run = unit(rows, allocator=allocator, pool_tokens=64, max_len=20)
        assert run.num_preemptions == 0
        assert all(r["status"] == "finished" for r in run.requests)


def test_a_request_that_waits_outside_may_be_younger_than_the_youngest_that_runs():
    """Story: the log said that r1 `arrived last` while r2, which had, was swapped out."""
    config = {"pool_blocks": 4, "block_size": 4, "preempt": "swap", "swap_blocks": 1}
    run = unit(requests((1, 8), (4, 8), (1, 8)), **config)
    why = [(event.step, event.request, event.why) for event in run.events if event.kind == "preempt"]
    assert run.at(5).swapped == ["r2"]
    assert why[1] == (
        6, "r1", "r1 needs 1 block, 0 free; request r1 is the youngest running request; "
        "host memory is full, so it is recomputed",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "victim", "because"),
    [
        ("youngest", "r2", "is the youngest running request"),
        ("oldest", "r0", "is the oldest running request"),
        ("fewest-tokens", "r1", "has the fewest stored tokens of the running requests"),
        ("lowest-priority", "r0", "has the lowest priority of the running requests"),
    ],
)
def test_each_rule_picks_its_victim_and_says_why(rule, victim, because):
    rows = ((8, -1), (6, 0), (8, 0))  # prompt, priority: r0 and r2 fill their blocks, and need more at step 2
    made = [
        Request(id=f"r{i}", arrival_s=0.0, prompt=prompt, output=4, max_tokens=4, priority=priority)
        for i, (prompt, priority) in enumerate(rows)
    ]
    run = unit(Trace("t", tuple(made)), pool_blocks=6, block_size=4, victim=rule)
    event = next(event for event in run.events if event.kind == "preempt")
    assert (event.step, event.request) == (2, victim)
    assert event.why == f"r0 needs 1 block, 0 free; request {victim} {because}"
    assert all(entry["status"] == "finished" for entry in run.requests)


def test_among_equals_the_youngest_goes():
    rows = requests(*[(8, 4)] * 3)
    for rule in ("fewest-tokens", "lowest-priority"):
        run = unit(rows, pool_blocks=6, block_size=4, victim=rule)
        assert next(event.request for event in run.events if event.kind == "preempt") == "r2"
