"""Answers of a model over managed memory: those of `transformers`, whatever manages the memory."""

from pathlib import Path
from typing import Any

import pytest
import torch

from engine.generate import Decoding
from engine.measure import measure
from engine.physical import Pool
from engine.setup import make_pool
from sim import Config, InputError
from tests.engine.speaking import PROMPTS, speak, tokens_of, twins
from tests.making import requests

GREEDY = Decoding(max_tokens=24)
DRAWN = Decoding(max_tokens=24, n=3, temperature=0.9, top_k=40, top_p=0.95, seed=4)
BEAMS = Decoding(max_tokens=16, beam=3)
SERVERS: list[dict[str, Any]] = [
    {"block_size": 1},
    {"allocator": "max", "placement": "first-fit"},
    {"allocator": "grow"},
    {"allocator": "slab"},
    {"chunked_prefill": True, "max_batch_tokens": 8},
    {"max_seqs": 3},
    {"prefix_cache": "hash", "block_size": 4},
]


def ended_by(ids: list[int]) -> frozenset[int]:
    """End tokens that cut some answers: what the roomy greedy run emits at a few places."""
    roomy = tokens_of(speak(GREEDY))
    return frozenset(roomy[index][0][place] for index, place in zip((0, 1, 3), ids, strict=True))


def test_greedy_answers_are_those_of_transformers() -> None:
    theirs, _, _ = twins()
    for prompt, (said,) in zip(PROMPTS, tokens_of(speak(GREEDY)), strict=True):
        with torch.inference_mode():
            found = theirs.generate(
                torch.tensor([prompt]), max_new_tokens=24, do_sample=False, eos_token_id=None, pad_token_id=0
            )
        assert said == found[0, len(prompt) :].tolist()


def test_an_end_token_ends_its_answer_and_no_other() -> None:
    ends = ended_by([4, 10, 2])
    roomy = tokens_of(speak(GREEDY))
    made = speak(GREEDY, ends)
    for answer, (whole,) in zip(made.answers, roomy, strict=True):
        cut = next((place for place, token in enumerate(whole) if token in ends), None)
        assert answer.said[0].tokens == whole[:cut]
        assert answer.said[0].has_ended == (cut is not None)
    assert made.run.num_steps <= 24
    assert sum(group.emitted for group in made.run.groups) == made.num_tokens  # nothing ran on past its end


@pytest.mark.parametrize("dials", SERVERS, ids=str)
@pytest.mark.parametrize("decoding", [GREEDY, DRAWN, BEAMS], ids=["greedy", "drawn", "beams"])
def test_answers_do_not_depend_on_who_manages_memory(decoding: Decoding, dials: dict[str, Any]) -> None:
    if dials.get("max_seqs", 8) < max(decoding.n, decoding.beam):
        pytest.skip("one request alone would be wider than the server")
    ends = ended_by([9, 10, 2])
    assert tokens_of(speak(decoding, ends, **dials)) == tokens_of(speak(decoding, ends))


@pytest.mark.parametrize("dials", [{}, {"allocator": "max"}, {"kv_dtype": "int8"}], ids=str)
def test_what_lies_in_a_pool_before_does_not_matter(
    dials: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def left_over(config: Config, device: torch.device) -> Pool:
        pool = make_pool(config, device, is_marked=False)
        pool.storage.view(torch.uint8).random_(generator=torch.Generator().manual_seed(3))
        return pool

    marked = tokens_of(speak(BEAMS, **dials))
    monkeypatch.setattr("tests.engine.speaking.make_pool", left_over)
    assert tokens_of(speak(BEAMS, look=False, **dials)) == marked


@pytest.mark.parametrize("preempt", ["recompute", "swap"])
@pytest.mark.parametrize("decoding", [GREEDY, DRAWN, BEAMS], ids=["greedy", "drawn", "beams"])
def test_preempted_requests_answer_as_if_nothing_had_happened(decoding: Decoding, preempt: str) -> None:
    ends = ended_by([9, 10, 2])
    pool = 48 if decoding is GREEDY else 96
    pressed = speak(decoding, ends, preempt=preempt, pool_tokens=pool, block_size=4)
    assert pressed.run.num_preemptions > 0
    assert tokens_of(pressed) == tokens_of(speak(decoding, ends))


def test_a_prompt_seen_before_is_found_in_the_cache_and_answered_alike() -> None:
    twice = [PROMPTS[1], PROMPTS[3], PROMPTS[1], PROMPTS[3]]
    made = speak(GREEDY, prompts=twice, prefix_cache="hash", block_size=4, batching="sequential")
    assert [answer.hit_tokens for answer in made.answers] == [0, 0, 20, 8]
    first, second, third, fourth = tokens_of(made)
    assert (first, second) == (third, fourth)
    assert first == tokens_of(speak(GREEDY))[1]


def test_a_report_names_the_weights_but_not_where_they_lie() -> None:
    _, _, path = twins()
    run = measure(
        requests((3, 2)), Config(model=path, kv_dtype="fp32", pool_tokens=64, max_len=16), device="cpu"
    )
    assert run.meta["engine"]["weights"] == Path(path).name


def test_samples_differ_and_another_seed_draws_others() -> None:
    (first, *_) = tokens_of(speak(DRAWN))
    assert len({tuple(said) for said in first}) == 3
    other = Decoding(max_tokens=24, n=3, temperature=0.9, top_k=40, top_p=0.95, seed=5)
    assert tokens_of(speak(other))[0] != first


def test_one_sample_is_the_first_of_several() -> None:
    alone = Decoding(max_tokens=24, temperature=0.9, top_k=40, top_p=0.95, seed=4)
    assert [said[0] for said in tokens_of(speak(DRAWN))] == [said[0] for said in tokens_of(speak(alone))]


def test_beams_are_those_of_transformers() -> None:
    theirs, _, _ = twins()
    ends = sorted(ended_by([9, 10, 2]))
    for prompt, said in zip(PROMPTS, tokens_of(speak(BEAMS, frozenset(ends))), strict=True):
        with torch.inference_mode():
            found = theirs.generate(
                torch.tensor([prompt]),
                num_beams=3,
                num_return_sequences=3,
                max_new_tokens=16,
                do_sample=False,
                eos_token_id=ends,
                pad_token_id=0,
            )
        rows = [row[len(prompt) :].tolist() for row in found]
        cuts = [next((i for i, token in enumerate(row) if token in ends), None) for row in rows]
        assert said == [row[:cut] for row, cut in zip(rows, cuts, strict=True)]


def test_a_prompt_that_can_never_run_is_rejected_and_the_others_are_answered() -> None:
    made = speak(GREEDY, prompts=[[3] * 120, PROMPTS[0]])
    assert made.answers[0].said == []
    assert "143" in (made.answers[0].reject_reason or "")
    assert tokens_of(made)[1] == tokens_of(speak(GREEDY))[0]


@pytest.mark.parametrize(
    ("dials", "message"),
    [
        ({"max_tokens": 0}, "max tokens 0: must be at least 1"),
        ({"beam": 2, "temperature": 0.5}, "a beam search draws nothing"),
        ({"n": 2}, "all would be the same"),
        ({"top_p": 0.5}, "greedy decoding draws nothing"),
    ],
)
def test_decoding_that_contradicts_itself_is_refused(dials: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Decoding(**dials)


@pytest.mark.parametrize("allocator", ["oracle", "pow2"])
def test_an_allocator_that_knows_the_future_cannot_serve_a_real_model(allocator: str) -> None:
    with pytest.raises(InputError, match="which nobody knows while it is written"):
        speak(GREEDY, allocator=allocator)


def test_a_token_outside_the_vocabulary_is_refused() -> None:
    with pytest.raises(InputError, match="prompt 1: must be at least one token id, each from 0 to 95"):
        speak(GREEDY, prompts=[[3], [96]])
