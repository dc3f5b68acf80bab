"""Beam search: the results of `transformers`, and of trying every continuation there is."""

from itertools import product

import pytest
import torch
from torch import Tensor

from engine.beams import Beam, BeamSearch
from tests.engine.checkpoint.making import reference

END = 2


def searched(model: object, prompt: list[int], search: BeamSearch, width: int) -> list[Beam]:
    """Runs a search to its end with whole forward passes, following parents as a server would."""
    histories = [list(prompt)]
    while True:
        with torch.inference_mode():
            logits = model(torch.tensor(histories)).logits[:, -1]  # type: ignore[operator]
        onward = search.step(logits)
        if onward.is_over:
            return search.finished
        whose = onward.parents if len(histories) == width else [0] * width
        histories = [[*histories[p], token] for p, token in zip(whose, onward.tokens, strict=True)]
        assert [history[len(prompt) :] for history in histories] == [list(b.tokens) for b in search._running]


@pytest.mark.parametrize(("width", "length_penalty"), [(2, 1.0), (4, 0.0), (4, 2.0)])
def test_beams_are_those_of_transformers(width: int, length_penalty: float) -> None:
    theirs = reference()
    prompt, ended = [5, 60, 3, 77], 0
    theirs.lm_head.weight.data[END] *= 3  # so that beams do end, early and late
    for last in range(3, 27):
        ids = [*prompt, last]
        found = theirs.generate(
            torch.tensor([ids]),
            num_beams=width,
            num_return_sequences=width,
            max_new_tokens=9,
            do_sample=False,
            length_penalty=length_penalty,
            eos_token_id=END,
            pad_token_id=0,
            output_scores=True,
            return_dict_in_generate=True,
        )
        ours = searched(theirs, ids, BeamSearch(width, 9, frozenset({END}), length_penalty), width)
        expected = [unpadded(row[len(ids) :]) for row in found.sequences]
        assert [list(beam.tokens) for beam in ours] == expected
        scores = torch.tensor([beam.value for beam in ours])
        torch.testing.assert_close(scores, found.sequences_scores, rtol=1e-4, atol=1e-4)
        ended += sum(beam.tokens[-1] == END and len(beam.tokens) < 9 for beam in ours)
    assert ended > 2


def unpadded(row: Tensor) -> list[int]:
    ids = row.tolist()
    return ids[: ids.index(END) + 1] if END in ids else ids


def test_with_a_beam_for_every_prefix_the_best_of_all_continuations_is_found() -> None:
    torch.manual_seed(1)
    table = torch.randn(4, 4)  # logits by the last token
    width, length = 64, 3
    search = BeamSearch(width, length, length_penalty=0.0)
    histories: list[list[int]] = [[0]]
    for _ in range(length):
        onward = search.step(torch.stack([table[history[-1]] for history in histories]))
        if onward.is_over:
            break
        histories = [[*beam.tokens] for beam in search._running]
    likely = table.log_softmax(dim=-1)

    def value(tokens: tuple[int, ...]) -> float:
        return sum(float(likely[a, b]) for a, b in zip((0, *tokens), tokens, strict=False))

    best = max(product(range(4), repeat=length), key=value)
    assert search.finished[0].tokens == best
    assert search.finished[0].value == pytest.approx(value(best), abs=1e-5)
