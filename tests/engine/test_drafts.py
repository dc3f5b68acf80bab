"""Drafts of a real model: greedy texts stay what they are, drawn ones keep the model's distribution."""

from collections import Counter
from typing import Any

import pytest
import torch

from engine.drafts import Draft
from engine.early_exit import EarlyExitDrafts
from engine.generate import Decoding
from engine.histories import Histories
from engine.ngram import NgramDrafts
from engine.sampling import Place, Sampling
from engine.verify import sampled
from sim import InputError
from sim.events import Kind
from sim.request import Sequence
from tests.engine.speaking import PROMPTS, speak, tokens_of, twins
from tests.making import request

NGRAM: dict[str, Any] = {"max_tokens": 24, "draft": "ngram"}
EXIT: dict[str, Any] = {"max_tokens": 24, "draft": "early-exit", "draft_layers": 1}
SERVERS: list[dict[str, Any]] = [
    {},
    {"block_size": 1},
    {"chunked_prefill": True, "max_batch_tokens": 12},
    {"pool_tokens": 52, "block_size": 4},
    {"pool_tokens": 52, "block_size": 4, "preempt": "swap", "swap_blocks": 30},
    {"prefix_cache": "hash", "block_size": 4, "batching": "sequential"},
]
DRAWS = Sampling(temperature=0.8, top_k=4, seed=11)


@pytest.mark.parametrize("dials", SERVERS, ids=str)
@pytest.mark.parametrize("drafting", [NGRAM, EXIT], ids=["ngram", "early-exit"])
def test_greedy_answers_with_drafts_are_those_without(
    drafting: dict[str, Any], dials: dict[str, Any]
) -> None:
    plain = speak(Decoding(max_tokens=24))
    made = speak(Decoding(**drafting), **dials, speculate=3)
    assert tokens_of(made) == tokens_of(plain)
    assert (made.run.num_preemptions > 0) == ("pool_tokens" in dials)
    work = made.run.work
    assert 0 < work.accepted < work.drafted
    assert work.emitted_by_decodes == work.decodes + work.accepted


@pytest.mark.parametrize("drafting", [NGRAM, EXIT], ids=["ngram", "early-exit"])
def test_an_end_token_among_accepted_drafts_is_the_last_that_is_said(drafting: dict[str, Any]) -> None:
    whole = tokens_of(speak(Decoding(max_tokens=24)))
    for place in range(2, 12):
        ends = frozenset(said[0][place] for said in whole)
        plain = speak(Decoding(max_tokens=24), ends)
        made = speak(Decoding(**drafting), ends, speculate=4)
        assert tokens_of(made) == tokens_of(plain)
        assert [group.emitted for group in made.run.groups] == [group.emitted for group in plain.run.groups]


def test_rejected_drafts_leave_memory_and_accepted_ones_save_a_decode_each() -> None:
    made = speak(Decoding(**NGRAM), speculate=4)
    rolled = [event.changes for event in made.run.log.events if event.kind is Kind.ROLLBACK]
    work = made.run.work
    assert sum(one["drafts"] - one["accepted"] for one in rolled) == work.drafted - work.accepted
    assert work.decodes == speak(Decoding(max_tokens=24)).run.work.decodes - work.accepted


def test_a_draft_model_that_is_the_whole_model_is_always_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its keys and values must be those that the verifying pass would have read: in slots, not in a copy."""
    _, model, _ = twins()
    before = EarlyExitDrafts.__init__

    def whole(self: EarlyExitDrafts, model: Any, num_layers: int, *given: Any, **named: Any) -> None:
        before(self, model, model.spec.num_layers, *given, **named)

    monkeypatch.setattr(EarlyExitDrafts, "__init__", whole)
    assert model.spec.num_layers > 1
    for decoding in (Decoding(**EXIT), Decoding(**EXIT, temperature=0.9, top_p=0.9, seed=3)):
        work = speak(decoding, speculate=3).run.work
        assert work.accepted == work.drafted > 0


def test_ngrams_propose_what_followed_the_longest_match_where_it_stood_last() -> None:
    histories = Histories(0, 100)
    ids = (1, 2, 3, 50, 2, 3, 60, 9, 2, 3)
    sequence = Sequence(request("r", len(ids), 8, tokens=ids))
    histories.begin(sequence)
    drafts = NgramDrafts(histories)
    assert drafts.num_ready(sequence) == 4  # 60 9 2 3, after the later "2 3"
    histories.append("r", [1])
    assert drafts.num_ready(sequence) == 10  # only "1" stood before: 2 3 50 ...
    histories.append("r", [2, 3])
    assert drafts.num_ready(sequence) == 10  # "1 2 3" at the start beats the later "2 3"
    histories.append("r", [77])
    assert drafts.num_ready(sequence) == 0


def test_rejection_draws_from_the_model_whatever_the_drafts_are_drawn_from() -> None:
    """2,000 first tokens, and the second ones after an accepted draft, against the exact distribution."""
    logits, drafting = torch.randn(3, 6, generator=torch.Generator().manual_seed(2)).mul(2).split([2, 1])
    rule = Sampling(temperature=0.8, seed=1)
    p, q = rule.distribution(logits), rule.distribution(drafting)
    for is_drawn in (True, False):
        first, second = Counter[int](), Counter[int]()
        for index in range(2000):
            place = Place(f"r{index}", 0, 5)
            draft = Draft(rule.draw(q, [place], "draft"), q) if is_drawn else Draft([int(p[0].argmax())])
            said = sampled(rule, logits, draft, place, most=9)
            first.update(said[:1])
            second.update(said[1:])
        for found, row in ((first, p[0]), (second, p[1])):
            assert found.total() > 100
            assert chi_square(found, dict(enumerate(row.tolist())), found.total()) < 20.5  # 5 degrees: 0.1 %


@pytest.mark.parametrize("drafting", [NGRAM, EXIT], ids=["ngram", "early-exit"])
def test_drawn_answers_with_drafts_have_the_models_distribution(drafting: dict[str, Any]) -> None:
    """All of 4 x 4 x 4 answers of three tokens, their chances computed by the model of `transformers`."""
    count = 1200
    prompt = PROMPTS[0] + tokens_of(speak(Decoding(max_tokens=24)))[0][0]  # it says some of it again
    decoding = Decoding(**{**drafting, "max_tokens": 3}, temperature=0.8, top_k=4, seed=7)
    made = speak(decoding, prompts=[prompt] * count, speculate=2, max_seqs=64, pool_tokens=4096)
    assert made.run.work.accepted > 0
    found = Counter(tuple(said[0]) for said in tokens_of(made))
    exact = chances(prompt)
    assert abs(sum(exact.values()) - 1) < 1e-6
    likely = {said: chance for said, chance in exact.items() if chance * count >= 5}
    rest = count - sum(found[said] for said in likely)
    expected = {**likely, (-1,): 1 - sum(likely.values())}
    degrees = len(expected) - 1
    statistic = chi_square(Counter({said: found[said] for said in likely} | {(-1,): rest}), expected, count)
    assert statistic < degrees + 4 * (2 * degrees) ** 0.5  # four standard deviations


def chances(prompt: list[int]) -> dict[tuple[int, ...], float]:
    """Of every answer of three tokens at `DRAWS`' temperature and top k."""
    theirs, _, _ = twins()

    def after(said: tuple[int, ...]) -> dict[int, float]:
        with torch.inference_mode():
            logits = theirs(torch.tensor([[*prompt, *said]])).logits[:, -1]
        row = DRAWS.distribution(logits)[0]
        return {token: float(row[token]) for token in row.nonzero().flatten().tolist()}

    first = after(())
    second = {one: after((one,)) for one in first}
    third = {(one, two): after((one, two)) for one in first for two in second[one]}
    return {
        (one, two, three): first[one] * second[one][two] * chance
        for (one, two), nexts in third.items()
        for three, chance in nexts.items()
    }


def chi_square(found: Counter[Any], chances: dict[Any, float], count: int) -> float:
    """Sum over outcomes of (found - expected) ** 2 / expected."""
    return sum((found[one] - chance * count) ** 2 / (chance * count) for one, chance in chances.items())


@pytest.mark.parametrize(
    ("drafting", "dials", "message"),
    [
        ({"draft": "ngram"}, {}, "--draft ngram without --speculate: nothing asks for drafts"),
        ({"draft_layers": 1}, {}, "--draft-layers 1 without --speculate"),
        ({"draft": "psychic"}, {"speculate": 2}, "draft 'psychic'"),
        ({"draft_layers": 1}, {"speculate": 2}, "--draft-layers 1 without --draft early-exit"),
        ({"draft": "early-exit", "draft_layers": 0}, {"speculate": 2}, "at least 1, and fewer than all"),
        ({"draft": "early-exit", "draft_layers": 99}, {"speculate": 2}, "at least 1, and fewer than all"),
        ({}, {"speculate": 2, "accept": 0.5}, "how many drafts hold is measured here"),
        ({"beam": 2}, {"speculate": 2}, "advance together"),
        ({"n": 2, "temperature": 0.5}, {"speculate": 2}, "advance together"),
    ],
)
def test_drafts_that_contradict_themselves_are_refused(
    drafting: dict[str, Any], dials: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        speak(Decoding(**drafting), prompts=PROMPTS[:1], **dials)
