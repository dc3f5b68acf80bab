"""Greedy and sampled tokens: right distributions, and draws that depend on nothing but their place."""

from collections import Counter

import pytest
import torch

from engine.sampling import Greedy, Place, Sampling, make_chooser, uniform
from sim import InputError

LOGITS = torch.tensor([[2.0, -1.0, 3.0, 0.5, -4.0]])


def drawn(sampling: Sampling, num_draws: int) -> Counter[int]:
    places = [Place("r", 0, position) for position in range(num_draws)]
    return Counter(sampling.choose(LOGITS.expand(num_draws, -1), places))


def test_greedy_takes_the_likeliest_token_and_of_equals_the_first() -> None:
    logits = torch.tensor([[0.0, 3.0, 3.0], [5.0, 1.0, 2.0]])
    assert Greedy().choose(logits, [Place("r", 0, 4), Place("q", 0, 4)]) == [1, 0]


def test_draws_follow_the_softmax_at_the_temperature() -> None:
    num_draws = 20_000
    expected = (LOGITS[0].double() / 0.8).softmax(dim=0)
    counts = drawn(Sampling(temperature=0.8), num_draws)
    for token, probability in enumerate(expected.tolist()):
        deviation = (num_draws * probability * (1 - probability)) ** 0.5
        assert abs(counts[token] - num_draws * probability) < 4 * deviation + 1


def test_top_k_leaves_the_k_likeliest_in_their_old_proportions() -> None:
    counts = drawn(Sampling(top_k=2), 20_000)
    assert set(counts) == {0, 2}
    assert abs(counts[2] / counts[0] - 2.71828) < 0.15


def test_top_p_leaves_the_smallest_set_that_reaches_p() -> None:
    probabilities = LOGITS.double().softmax(dim=-1)[0]  # token 2 has 0.66, token 0 has 0.24, token 3 0.05
    assert set(drawn(Sampling(top_p=float(probabilities[2]) - 1e-9), 2000)) == {2}
    assert set(drawn(Sampling(top_p=float(probabilities[2]) + 1e-9), 2000)) == {0, 2}
    assert set(drawn(Sampling(top_p=0.95), 5000)) == {0, 2, 3}


def test_the_nucleus_is_taken_from_what_top_k_left() -> None:
    """Of the two likeliest, renormalised, token 2 alone has 0.73."""
    assert set(drawn(Sampling(top_k=2, top_p=0.7), 2000)) == {2}


def test_a_draw_depends_on_its_place_and_not_on_its_row_in_the_batch() -> None:
    sampling = Sampling(seed=3)
    logits = torch.randn(40, 500, generator=torch.Generator().manual_seed(0))
    places = [Place(f"r{row % 7}", row % 3, row) for row in range(40)]
    together = sampling.choose(logits, places)
    alone = [sampling.choose(logits[row : row + 1], places[row : row + 1])[0] for row in range(40)]
    backwards = sampling.choose(logits.flip(0), places[::-1])[::-1]
    assert together == alone == backwards


def test_another_seed_request_sample_or_position_is_another_draw() -> None:
    place = Place("r", 0, 5)
    others = [Place("q", 0, 5), Place("r", 1, 5), Place("r", 0, 6)]
    assert len({uniform(0, place), uniform(1, place), *(uniform(0, other) for other in others)}) == 5


def test_a_token_of_probability_zero_is_never_drawn() -> None:
    logits = torch.full((1000, 9), -torch.inf)
    logits[:, 4] = 1.0
    assert set(Sampling().choose(logits, [Place("r", 0, row) for row in range(1000)])) == {4}


def test_no_rows_give_no_tokens() -> None:
    assert Sampling().choose(torch.empty(0, 9), []) == Greedy().choose(torch.empty(0, 9), []) == []


@pytest.mark.parametrize(
    ("dials", "message"),
    [
        ({"temperature": -1.0}, "temperature -1.0: must be above 0"),
        ({"temperature": float("nan")}, "temperature nan"),
        ({"temperature": 1.0, "top_k": 0}, "top k 0: must be at least 1"),
        ({"temperature": 1.0, "top_p": 1.5}, "top p 1.5: must be above 0 and at most 1"),
        ({"temperature": 0.0, "top_k": 5}, "temperature 0: greedy decoding draws nothing"),
    ],
)
def test_what_makes_no_distribution_is_refused(dials: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_chooser(**{"top_k": None, "top_p": None, "seed": 0, **dials})  # type: ignore[arg-type]
