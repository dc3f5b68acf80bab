"""Requests of several sequences: samples that share their prompt, beams that change places."""

from typing import Any

import pytest
import torch

from engine.choose import next_of_beams
from engine.prompts import prompt_ids
from engine.sampling import Place, Sampling
from engine.setup import make_model
from sim import Request, Trace
from tests.engine.dense import dense_logits
from tests.engine.running import assert_exact, tiny
from tests.making import request

SAMPLES = [request(f"s{i}", 9 + 4 * i, 8 + i, arrival_s=i, n=n) for i, n in enumerate((3, 1, 2, 4))]
STAY = (0, 1, 2)
# Among them beams that change places in a circle: copied one after another, one would be lost.
CHOSEN = (STAY, STAY, (1, 2, 0), STAY, (2, 0, 1), (0, 0, 2), STAY, (1, 1, 0), (2, 0, 0), STAY, STAY)
BEAMS = [
    request("b0", 13, 12, beam=3, beam_parents=CHOSEN),
    request("b1", 6, 9, arrival_s=1, beam=2),
    request("b2", 21, 5, arrival_s=1),
]
GROUPS = Trace("groups", (*SAMPLES[:2], *BEAMS, *SAMPLES[2:]))
ROOMY: dict[str, Any] = {"pool_tokens": 2048, "block_size": 4}
POLICIES: list[dict[str, Any]] = [
    {"pool_tokens": 180, "block_size": 4},
    {"pool_tokens": 180, "block_size": 4, "preempt": "swap"},
    {"pool_tokens": 180, "block_size": 7, "chunked_prefill": True, "max_batch_tokens": 12},
    {"pool_tokens": 200, "block_size": 4, "prefix_cache": "hash"},
    {"allocator": "max", "pool_tokens": 1024},
    {"allocator": "grow", "pool_tokens": 400, "placement": "first-fit", "compaction": "on-shortage"},
    {"allocator": "slab", "pool_tokens": 512},
    {"allocator": "virtual", "pool_tokens": 300, "page_size": "256B"},
    {"allocator": "mixed", "pool_tokens": 240, "block_size": 4, "large_block_size": 16},
]
IDS = ["-".join(map(str, dials.values())) for dials in POLICIES]


def served(dials: dict[str, Any]) -> dict[str, list[int]]:
    _, measured = assert_exact(GROUPS, tiny(**{"max_seqs": 64, **dials}))
    return measured.tokens


@pytest.fixture(scope="module")
def roomy() -> dict[str, list[int]]:
    return served(ROOMY)


def test_every_sequence_emits_its_requests_true_output_length(roomy: dict[str, list[int]]) -> None:
    expected = {
        name: one.output
        for one in GROUPS.requests
        for name in ([one.id] if one.width == 1 else [f"{one.id}/{i}" for i in range(one.width)])
    }
    assert {name: len(tokens) for name, tokens in roomy.items()} == expected


def test_samples_of_one_prompt_go_different_ways(roomy: dict[str, list[int]]) -> None:
    assert len({tuple(roomy[f"s3/{index}"]) for index in range(4)}) == 4


@pytest.mark.parametrize("dials", POLICIES, ids=IDS)
def test_no_token_of_a_group_depends_on_the_allocator_the_batch_or_a_preemption(
    dials: dict[str, Any], roomy: dict[str, list[int]]
) -> None:
    assert served(dials) == roomy


def parents_of(one: Request, step: int) -> list[int]:
    """Whose tokens each sequence goes on from when it emits its token number `step`."""
    if step == 0:
        return [0] * one.width
    if one.beam_parents is not None and step < one.output - 1:  # the last tokens are not reordered
        return list(one.beam_parents[step - 1])
    return list(range(one.width))


def tokens_from_scratch(one: Request) -> list[list[int]]:
    """What the sequences of `one` emit, each token from a forward pass over all that precedes it."""
    model = make_model(tiny(), torch.device("cpu"))
    prompt = prompt_ids(one, model.seed, model.spec.vocab).tolist()
    known = [prompt]
    for step in range(one.output):
        logits = torch.stack([dense_logits(model, ids)[-1] for ids in known])
        parents = parents_of(one, step)
        if one.beam > 1:
            chosen = next_of_beams(logits, parents)
        else:
            places = [Place(one.id, index, one.prompt + step) for index in range(one.width)]
            chosen = Sampling(seed=model.seed).choose(logits[parents], places)
        known = [[*known[parent], token] for parent, token in zip(parents, chosen, strict=True)]
    return [ids[len(prompt) :] for ids in known]


@pytest.mark.parametrize("one", [SAMPLES[0], SAMPLES[3], BEAMS[0]], ids=lambda one: one.id)
def test_a_groups_tokens_are_those_of_forward_passes_without_a_cache(
    one: Request, roomy: dict[str, list[int]]
) -> None:
    assert [roomy[f"{one.id}/{index}"] for index in range(one.width)] == tokens_from_scratch(one)


def test_a_beam_takes_its_parents_best_token_that_no_earlier_sibling_took() -> None:
    logits = torch.tensor([[0.0, 3.0, 2.0, 1.0], [5.0, 0.0, 4.0, 1.0]])
    assert next_of_beams(logits, [0, 0, 1, 0]) == [1, 2, 0, 3]
    assert next_of_beams(logits, [1, 0, 1]) == [0, 1, 2]


def test_a_shared_slot_counts_once_and_writing_to_it_copies_one_block() -> None:
    trace = Trace("pair", (request("p", 10, 3, n=2),))
    simulated, measured = assert_exact(trace, tiny(pool_tokens=64, block_size=4))
    first, second = measured.observations[0], measured.observations[1]
    assert first.block_tables["p/0"] == first.block_tables["p/1"]
    assert first.ledger.live == 10
    assert second.ledger.live == 8 + 2 * 3  # two full blocks are shared, each has a last block of its own
    assert measured.traffic.copies == simulated.traffic.copies == 1
