"""Who may run, and when: DESIGN section 3, steps 1 and 3."""

import pytest

from sim import Config, Request, Run, Trace, simulate
from tests.making import requests


def unit(trace, **dials) -> Run:
    return simulate(trace, Config(timing="unit", **dials), check=True)


def finishes(run: Run) -> list[float | None]:
    return [group.finish_s for group in run.groups]


def test_a_request_that_needs_more_blocks_than_the_pool_has_is_rejected_with_both_numbers():
    run = unit(requests((65, 1), (10, 5)), pool_blocks=4, block_size=16)
    first, second = run.requests
    assert (first["status"], first["emitted"]) == ("rejected", 0)
    assert first["reason"] == "needs 5 blocks at worst, the pool can give 4"
    assert (second["status"], second["emitted"]) == ("finished", 5)


def test_the_worst_case_is_prompt_plus_max_tokens_minus_one():
    # 60 + 5 - 1 = 64 = 4 blocks of 16; the last token is never stored
    assert [r["status"] for r in unit(requests((60, 5), (60, 6)), pool_blocks=4).requests] == [
        "finished",
        "rejected",
    ]


def test_the_worst_case_counts_what_was_asked_for_not_what_happened():
    run = unit(requests((60, 1, 0, 5), (60, 1, 0, 6)), pool_blocks=4)
    assert [r["status"] for r in run.requests] == ["finished", "rejected"]


@pytest.mark.parametrize(
    ("dials", "needed", "limit"),
    [
        ({"pool_blocks": 100, "max_len": 64}, 65, 64),
        ({"pool_blocks": 100, "max_batch_tokens": 64}, 65, 64),
        ({"pool_tokens": 64, "allocator": "oracle", "placement": "first-fit"}, 65, 64),
        ({"pool_tokens": 96, "allocator": "oracle", "placement": "buddy"}, 128, 64),  # 96 = 64 + 32
        ({"pool_tokens": 1024, "allocator": "max"}, 2048, 1024),
    ],
)
def test_each_reason_for_a_rejection_names_what_is_needed_and_what_there_is(dials, needed, limit):
    run = unit(requests((60, 6)), **dials)
    [rejected] = run.requests
    assert rejected["status"] == "rejected"
    assert f" {needed} " in rejected["reason"]
    assert rejected["reason"].endswith(f" {limit}")
    [event] = [event for event in run.events if event.kind == "reject"]
    assert event.changes == {"needed": needed, "available": limit}


def test_a_long_worst_case_is_no_reason_for_rejection_when_prompts_come_in_chunks():
    run = unit(requests((60, 6)), pool_blocks=100, max_batch_tokens=8, chunked_prefill=True)
    assert run.requests[0]["status"] == "finished"


def test_a_prompt_that_fits_only_without_its_future_is_admitted_by_the_paged_pool():
    # (8, 5) needs 12 slots in the end, 8 now
    run = unit(requests((4, 4), (8, 5)), pool_blocks=3, block_size=4)
    assert run.groups[1].first_token_s == 1.0


def test_the_first_that_does_not_fit_blocks_those_behind_it():
    run = unit(requests((8, 4), (12, 1), (4, 1)), pool_blocks=4, block_size=4)
    assert finishes(run) == [4.0, 5.0, 5.0]  # r2 would have fitted at once


def test_max_seqs_bounds_how_many_run_at_once():
    run = unit(requests(*[(4, 3)] * 5), pool_blocks=100, max_seqs=2)
    assert finishes(run) == [3.0, 3.0, 6.0, 6.0, 9.0]
    assert run.report()["batch"]["max"] == 2


def test_a_step_computes_at_most_its_token_budget():
    # step 1: 5; step 2: a decode leaves 5 of 6 for r1; step 3: two decodes leave 4, not enough for r2
    run = unit(requests((5, 2), (5, 2), (5, 1)), pool_blocks=100, max_batch_tokens=6)
    assert list(run.series.column("tokens")) == [5, 6, 6]
    assert finishes(run) == [2.0, 3.0, 3.0]


def test_the_budget_is_shared_with_decodes_before_prompts():
    run = unit(requests((5, 4), (4, 3), (6, 1)), pool_blocks=100, max_batch_tokens=8)
    # step 1: r0's 5 leave 3 < 4; step 2: a decode leaves 7 for r1, then 3; step 3: two decodes leave 6.
    assert list(run.series.column("tokens")) == [5, 5, 8, 2]
    assert finishes(run) == [4.0, 4.0, 3.0]


def test_the_watermark_keeps_blocks_free_at_admission():
    rows = (16, 3), (20, 1)  # 4 blocks (5 with the output) and 5 of 10
    assert finishes(unit(requests(*rows), pool_blocks=10, block_size=4)) == [3.0, 1.0]
    assert finishes(unit(requests(*rows), pool_blocks=10, block_size=4, watermark=0.2)) == [3.0, 4.0]


def test_the_watermark_may_be_reached_exactly():
    rows = (16, 3), (16, 1)  # 4 + 4 blocks leave 2 of 10
    assert finishes(unit(requests(*rows), pool_blocks=10, block_size=4, watermark=0.2)) == [3.0, 1.0]
    assert finishes(unit(requests(*rows), pool_blocks=10, block_size=4, watermark=0.3)) == [3.0, 4.0]


def test_no_watermark_is_kept_when_nothing_runs():
    run = unit(requests((40, 1), (40, 1)), pool_blocks=10, block_size=4, watermark=0.9)
    assert finishes(run) == [1.0, 2.0]


def test_a_running_sequence_may_grow_into_the_watermark():
    run = unit(requests((4, 37)), pool_blocks=10, block_size=4, watermark=0.5)
    assert finishes(run) == [37.0]
    assert run.num_preemptions == 0


def test_contiguous_reservations_keep_the_watermark_too():
    rows = (16, 3), (16, 1)  # 18 and 16 of 40 slots
    dials = {"allocator": "oracle", "placement": "first-fit", "pool_tokens": 40}
    assert finishes(unit(requests(*rows), **dials, watermark=0.15)) == [3.0, 1.0]
    assert finishes(unit(requests(*rows), **dials, watermark=0.2)) == [3.0, 4.0]


def test_requests_of_one_instant_are_served_in_the_order_of_the_file():
    rows = [(4, 1, 2.0), (4, 1, 1.0), (4, 1, 2.0), (4, 1, 1.0)]
    run = unit(requests(*rows), pool_blocks=100, max_seqs=1)
    admitted = [event.request for event in run.events if event.kind == "admit"]
    assert admitted == ["r1", "r3", "r0", "r2"]
    assert [event.request for event in run.events if event.kind == "arrive"] == admitted


def test_an_arrival_during_a_step_waits_for_the_next():
    run = unit(requests((4, 3), (4, 1, 0.5), (4, 1, 2.0)), pool_blocks=100)
    assert finishes(run) == [3.0, 2.0, 3.0]


def test_time_jumps_to_the_next_arrival_when_there_is_nothing_to_do():
    run = unit(requests((4, 2, 10.0), (4, 1, 100.5)), pool_blocks=100)
    assert finishes(run) == [12.0, 101.5]
    assert (run.num_steps, run.time_s, run.idle_s) == (3, 101.5, 98.5)


def test_a_rejected_request_costs_no_step_and_no_time():
    run = unit(requests((4, 1, 1.0), (999, 1, 50.0), (4, 1, 70.0)), pool_blocks=4)
    assert (run.num_steps, run.time_s, run.idle_s) == (2, 71.0, 69.0)


def test_a_prefill_stores_the_prompt_and_emits_and_the_last_token_is_never_stored():
    run = unit(requests((8, 4)), pool_blocks=4, block_size=4)
    states = [run.at(step) for step in range(1, 5)]
    assert [state.stored["r0"] for state in states] == [8, 9, 10, 11]
    assert [state.emitted["r0"] for state in states] == [1, 2, 3, 4]
    assert run.num_steps == 4


def test_a_request_of_one_token_takes_one_prefill_and_no_decode():
    run = unit(requests((8, 1)), pool_blocks=2, block_size=4)
    kinds = [event.kind for event in run.events]
    assert (kinds.count("prefill"), kinds.count("decode")) == (1, 0)
    assert finishes(run) == [1.0]


def group(**fields) -> Trace:
    return Trace(
        "t", (Request(id="a", arrival_s=0.0, **{"prompt": 20, "output": 5, "max_tokens": 5, **fields}),)
    )


@pytest.mark.parametrize("kind", ["n", "beam"])
@pytest.mark.parametrize(
    ("dials", "reason"),
    [
        # 24 tokens take 6 blocks; 5 of them are full of prompt and shared, so each further sequence takes 1
        ({"pool_blocks": 7, "block_size": 4}, "needs 8 blocks at worst, the pool can give 7"),
        ({"pool_blocks": 99, "max_seqs": 2}, "needs 3 sequences at once, a step runs 2"),
        (
            {"pool_blocks": 99, "max_batch_tokens": 2, "chunked_prefill": True},
            "needs 3 sequences at once, a step runs 2",
        ),
        # recomputed after a preemption, all come back in one step
        (
            {"pool_blocks": 99, "max_batch_tokens": 71},
            "needs 72 tokens in one step at worst, the budget is 71",
        ),
        (
            {"allocator": "oracle", "pool_tokens": 71, "placement": "first-fit"},
            "needs 72 slots at worst, the pool can give 71",
        ),
        (
            {"allocator": "oracle", "pool_tokens": 95},  # 64 + 31: two ranges of 32 fit
            "asks for 72 slots, 96 as buddy placement rounds them, the pool can give 64",
        ),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
def test_a_request_is_rejected_when_its_sequences_could_never_all_run(kind, dials, reason):
    [rejected] = unit(group(**{kind: 3}), **dials).requests
    assert rejected["reason"] == reason


@pytest.mark.parametrize("kind", ["n", "beam"])
def test_one_more_of_what_was_missing_lets_all_sequences_run(kind):
    for dials in (
        {"pool_blocks": 8, "block_size": 4, "max_seqs": 3, "max_batch_tokens": 72},
        {"pool_blocks": 8, "block_size": 4, "max_batch_tokens": 3, "chunked_prefill": True},
        {"pool_tokens": 72, "allocator": "oracle", "placement": "first-fit"},
        {"pool_tokens": 96, "allocator": "oracle"},
    ):
        [served] = unit(group(**{kind: 3}), **dials).requests
        assert (served["status"], served["emitted"]) == ("finished", 15)


def test_all_sequences_of_a_request_count_against_max_seqs():
    trace = Trace("t", (*group(n=3), *requests((20, 5))))
    assert finishes(unit(trace, pool_blocks=99, max_seqs=4)) == [5.0, 5.0]
    assert finishes(unit(trace, pool_blocks=99, max_seqs=3)) == [5.0, 10.0]


@pytest.mark.parametrize(
    ("dials", "reason"),
    [
        ({"allocator": "max"}, "asks for 2048 slots, the pool can give 1024"),
        ({"allocator": "max", "max_len": 1025}, "asks for 1025 slots, 2048 as buddy placement rounds them, "
         "the pool can give 1024"),
        ({"allocator": "max", "max_len": 1025, "placement": "best-fit"},
         "asks for 1025 slots, the pool can give 1024"),
        ({"allocator": "slab", "size_classes": "64,2048"},
         "asks for 65 contiguous slots, 2048 as its size classes round them, the pool can give 64"),
    ],
    ids=["max", "buddy", "best-fit", "slab"],
)  # fmt: skip
def test_a_rejection_names_what_was_asked_for_and_what_the_placement_makes_of_it(dials, reason):
    """Story: `needs 128 slots` stood in the log, and the request had asked for 65."""
    assert unit(requests((60, 6)), pool_tokens=1024, **dials).requests[0]["reason"] == reason
