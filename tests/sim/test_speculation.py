"""Speculative decoding: drafts take slots and budget, rejected ones are rolled back, outputs stay as long."""

from random import Random

import pytest

from sim import Config, InputError, Request, Trace, simulate
from sim.events import Kind
from tests.making import random_rows, requests
from tests.sim.witness import Witness


def run_of(trace, **dials):
    run = simulate(trace, Config(**{"timing": "unit", "block_size": 4} | dials), check=True)
    Witness(run)
    return run


def decodes(run) -> list[dict]:
    return [event.changes for event in run.events if event.kind is Kind.DECODE]


def rollbacks(run) -> list[dict]:
    return [event.changes for event in run.events if event.kind is Kind.ROLLBACK]


def test_drafts_that_all_hold_emit_k_plus_one_tokens_a_step():
    run = run_of(requests((6, 9)), pool_blocks=8, speculate=3, accept=1.0)
    assert [one["emitted"] for one in decodes(run)] == [5, 9]
    assert run.num_steps == 3
    assert not rollbacks(run)
    speculation = run.report()["speculation"]
    assert speculation == {
        "drafted_tokens": 6, "accepted_tokens": 6, "acceptance": 1.0, "tokens_per_decode": 4.0,
    }  # fmt: skip


def test_drafts_that_never_hold_cost_slots_and_no_steps():
    trace = requests((6, 9))
    plain, drafted = run_of(trace, pool_blocks=8), run_of(trace, pool_blocks=8, speculate=3, accept=0.0)
    assert plain.num_steps == drafted.num_steps == 9
    assert [one["emitted"] for one in decodes(drafted)] == [one["emitted"] for one in decodes(plain)]
    assert drafted.report()["speculation"]["tokens_per_decode"] == 1.0
    assert drafted.report()["recompute"]["computed_tokens"] > plain.report()["recompute"]["computed_tokens"]


def test_a_rollback_says_which_positions_are_empty_again():
    run = run_of(requests((6, 9)), pool_blocks=8, speculate=3, accept=0.0)
    # the first decode stores position 6 and drafts 7, 8, 9
    assert rollbacks(run)[0] == {"drafts": 3, "accepted": 0, "positions": [7, 10]}
    assert run.at(2).stored["r0"] == 7


def test_blocks_that_only_rejected_drafts_filled_stay_for_the_next_drafts():
    """As in vLLM: the next step needs the same slots again. They are reserved or internal, never live."""
    run = run_of(requests((6, 9)), pool_blocks=8, speculate=3, accept=0.0)
    assert run.at(2).block_tables["r0"] == [0, 1, 2]  # 7 stored tokens need two
    ledger = run.at(2).ledger
    assert (ledger["live"], ledger["reserved"], ledger["internal"]) == (7, 5, 0)
    freed = [event for event in run.events if event.kind is Kind.FREE]
    assert [event.why for event in freed] == ["finished"]


def test_drafts_never_pass_what_the_client_asked_for():
    # prompt 6, at most 9 tokens: 14 are stored at most, 4 blocks of 4 hold 16; the maximum length is 14
    run = run_of(requests((6, 9)), pool_blocks=4, max_len=14, speculate=8, accept=0.0)
    assert [one["drafts"] for one in rollbacks(run)] == [7, 6, 5, 4, 3, 2, 1]
    assert max(one["positions"][1] for one in rollbacks(run)) == 14


def test_what_the_model_ends_is_not_emitted_beyond_its_end():
    # the client allows 50, the model says 6: of 8 right drafts only the first 4 count
    run = run_of(requests((6, 6, 0.0, 50)), pool_blocks=20, speculate=8, accept=1.0)
    assert run.requests[0]["emitted"] == 6
    assert decodes(run) == [{"stored": 11, "emitted": 6, "drafts": 8, "accepted": 4}]
    assert rollbacks(run) == [{"drafts": 8, "accepted": 4, "positions": [11, 15]}]


def test_drafts_are_paid_for_by_the_token_budget():
    # 3 sequences of 1 + 3 tokens, 10 a step: the third runs with one draft
    run = run_of(
        requests((4, 9), (4, 9), (4, 9)), pool_blocks=40, speculate=3, accept=0.0,
        chunked_prefill=True, max_batch_tokens=10,
    )  # fmt: skip
    steps = [event.changes["tokens"] for event in run.events if event.kind is Kind.STEP]
    assert max(steps) == 10
    step = next(e.step for e in run.events if e.kind is Kind.STEP and e.changes["batch"] == 3 and e.step > 2)
    drafts = {
        e.request: e.changes["drafts"] for e in run.events if e.kind is Kind.ROLLBACK and e.step == step
    }
    assert drafts == {"r0": 3, "r1": 3, "r2": 1}


def test_the_mean_of_tokens_a_step_is_the_geometric_sum():
    # accepted drafts are 0 to K in a row: (1 - p^(K + 1)) / (1 - p) tokens a step
    trace = requests(*[(8, 400)] * 30)
    run = simulate(trace, Config(pool_blocks=2000, speculate=4, accept=0.6, timing="unit"), record=False)
    speculation = run.report()["speculation"]
    assert speculation["tokens_per_decode"] == pytest.approx((1 - 0.6**5) / 0.4, rel=0.03)


@pytest.mark.parametrize("seed", range(10))
def test_every_request_emits_what_it_emits_without_drafts(seed):
    random = Random(seed)
    trace = requests(*random_rows(random, 20))
    config = {"pool_blocks": 20, "max_len": 80, "prefix_cache": random.choice(("off", "hash", "radix"))}
    plain, drafted = run_of(trace, **config), run_of(trace, **config, speculate=3, accept=0.5)
    assert [one["emitted"] for one in plain.requests] == [one["emitted"] for one in drafted.requests]
    assert drafted.num_steps < plain.num_steps


def test_no_drafts_are_proposed_in_prefill():
    run = run_of(
        requests((20, 3)), pool_blocks=8, speculate=3, accept=1.0, chunked_prefill=True, max_batch_tokens=8
    )
    prefills = [event.changes["tokens"] for event in run.events if event.kind is Kind.PREFILL]
    assert prefills == [8, 8, 4]


@pytest.mark.parametrize(("widths", "name"), [({"n": 2}, "n 2"), ({"beam": 3}, "beam 3")])
def test_drafts_for_several_sequences_are_refused(widths, name):
    trace = Trace("made", (Request(id="r7", arrival_s=0.0, prompt=4, output=4, max_tokens=4, **widths),))
    with pytest.raises(InputError, match=f"--speculate with {name} of request r7"):
        simulate(trace, Config(speculate=2))


def test_drafts_are_seeded_by_request():
    trace = requests((6, 30), (6, 30))
    both, alone = (
        run_of(trace, pool_blocks=40, speculate=3),
        run_of(requests((6, 30)), pool_blocks=40, speculate=3),
    )
    ours = [event for event in both.events if event.kind is Kind.DECODE and event.request == "r0"]
    assert [event.changes for event in ours] == decodes(alone)
