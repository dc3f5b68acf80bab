"""Batching rules, the step rule, and prompts in chunks."""

import pytest

from sim import Config, Run, simulate
from tests.making import requests


def unit(trace, **dials) -> Run:
    return simulate(
        trace, Config(timing="unit", pool_blocks=dials.pop("pool_blocks", 100), **dials), check=True
    )


def finishes(run: Run) -> list[float | None]:
    return [group.finish_s for group in run.groups]


@pytest.mark.parametrize(
    ("batching", "expected"),
    [("continuous", [1.0, 3.0, 3.0]), ("static", [1.0, 3.0, 5.0]), ("sequential", [1.0, 4.0, 6.0])],
)
def test_a_third_request_joins_at_once_or_after_the_batch_or_waits_for_each(batching, expected):
    run = unit(requests((4, 1), (4, 3), (4, 2)), batching=batching, max_seqs=2)
    assert finishes(run) == expected


def test_a_static_batch_takes_nobody_who_comes_later():
    run = unit(requests((4, 3), (4, 1, 1.0)), batching="static")
    assert finishes(run) == [3.0, 4.0]


def test_a_static_batch_is_filled_over_several_steps_when_the_budget_is_spent():
    run = unit(requests((8, 2), (8, 2)), batching="static", max_batch_tokens=9)
    assert finishes(run) == [2.0, 3.0]


def test_a_static_batch_that_just_spends_the_budget_is_closed():
    """Story: a batch that took all who waited and the last token of the budget stayed open for later ones."""
    run = unit(requests((4, 2), (4, 2), (4, 1, 1.0)), batching="static", max_batch_tokens=8)
    assert finishes(run) == [2.0, 2.0, 3.0]


def test_a_static_batch_that_is_full_is_closed_even_if_the_budget_is_spent_too():
    """Story: r0 left after one step, and r2 took its place in a batch that had been full."""
    run = unit(requests((4, 1), (4, 3), (4, 1)), batching="static", max_batch_tokens=8, max_seqs=2)
    assert finishes(run) == [1.0, 3.0, 4.0]


def test_a_static_batch_takes_its_preempted_member_back_after_it_has_ended():
    run = unit(requests((8, 4), (8, 4), (8, 4)), batching="static", pool_blocks=6, block_size=4)
    assert finishes(run) == [4.0, 4.0, 7.0]


def test_prefill_first_runs_prompts_alone_and_delays_decodes():
    rows = requests((4, 3), (4, 1, 1.0))
    assert finishes(unit(rows, step_rule="mixed")) == [3.0, 2.0]
    run = unit(rows, step_rule="prefill-first")
    assert finishes(run) == [4.0, 2.0]
    kinds = [
        [str(e.kind) for e in run.events if e.step == step and e.kind in ("prefill", "decode")]
        for step in (1, 2, 3, 4)
    ]
    assert kinds == [["prefill"], ["prefill"], ["decode"], ["decode"]]


def test_prefill_first_decodes_when_the_next_prompt_does_not_fit():
    run = unit(requests((8, 3), (12, 1)), step_rule="prefill-first", pool_blocks=4, block_size=4)
    assert finishes(run) == [3.0, 4.0]


def test_prefill_first_resumes_the_swapped_before_it_admits():
    run = unit(
        requests((8, 8), (8, 8), (1, 1, 2.0)),
        step_rule="prefill-first", preempt="swap", swap_blocks=4, pool_blocks=4, block_size=4,
    )  # fmt: skip
    steps = {(event.kind, event.request): event.step for event in run.events if event.request}
    assert (steps["swap_out", "r1"], steps["swap_in", "r1"], steps["admit", "r2"]) == (2, 9, 10)


def test_a_prompt_in_chunks_emits_with_its_last_chunk():
    run = unit(requests((20, 2)), chunked_prefill=True, max_batch_tokens=8)
    chunks = [
        (e.changes["tokens"], e.changes["stored"], e.changes["emitted"])
        for e in run.events
        if e.kind == "prefill"
    ]
    assert chunks == [(8, 8, 0), (8, 16, 0), (4, 20, 1)]
    assert finishes(run) == [4.0]
    assert run.groups[0].prefills == [20]
    assert run.groups[0].first_token_s == 3.0


def test_a_chunk_that_ends_with_the_prompt_leaves_no_empty_chunk():
    run = unit(requests((16, 1)), chunked_prefill=True, max_batch_tokens=8)
    assert [e.changes["tokens"] for e in run.events if e.kind == "prefill"] == [8, 8]


def test_a_chunk_is_as_large_as_the_rest_of_the_budget():
    run = unit(requests((5, 4), (20, 1)), chunked_prefill=True, max_batch_tokens=8)
    chunks = [e.changes["tokens"] for e in run.events if e.kind == "prefill" and e.request == "r1"]
    assert chunks == [3, 7, 7, 3]  # 8 - 5, then 8 - 1 decode, then the rest
    assert list(run.series.column("tokens")) == [8, 8, 8, 4]


def test_a_chunk_takes_the_blocks_of_its_tokens_only():
    run = unit(requests((20, 1)), chunked_prefill=True, max_batch_tokens=6, block_size=4)
    assert [len(run.at(step).block_tables["r0"]) for step in (1, 2, 3, 4)] == [2, 3, 5, 5]


def test_a_request_in_chunks_is_admitted_only_when_its_whole_input_would_fit():
    # r1's first chunk (2 tokens, 1 block) would fit beside r0; its prompt (3 blocks, 2 free) does not.
    run = unit(
        requests((8, 3), (12, 1)), chunked_prefill=True, max_batch_tokens=10, pool_blocks=4, block_size=4
    )
    assert [event.step for event in run.events if event.kind == "admit"] == [1, 4]


def test_a_request_preempted_between_chunks_starts_its_prompt_again():
    # Both are admitted, since chunks take blocks late; r0's decodes then meet r1's chunks.
    run = unit(
        requests((7, 6), (12, 2)), chunked_prefill=True, max_batch_tokens=8, pool_blocks=5, block_size=4
    )
    victim = next(event for event in run.events if event.kind == "preempt")
    assert (victim.request, victim.changes["emitted"]) == ("r1", 0)
    assert 0 < victim.changes["stored"] < 12
    assert run.groups[1].prefills[:2] == [12, 12]
    assert all(r["status"] == "finished" for r in run.requests)


def test_a_request_swapped_between_chunks_goes_on_where_it_was():
    run = unit(
        requests((7, 6), (12, 2)),
        chunked_prefill=True, max_batch_tokens=8, pool_blocks=5, block_size=4, preempt="swap",
    )  # fmt: skip
    assert run.groups[1].prefills == [12]
    assert run.groups[1].preemptions > 0
    computed = sum(e.changes["tokens"] for e in run.events if e.kind == "prefill" and e.request == "r1")
    assert computed == 12
