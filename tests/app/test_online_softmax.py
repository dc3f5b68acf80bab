"""The Kernels page's arithmetic, against dense attention and the engine's own kernels."""

import math

import pytest
import torch

from app.online_softmax import (
    CHUNK,
    HEAD_DIM,
    NUM_HEADS,
    TILE,
    Case,
    Walk,
    by_engine,
    dense_attention,
    make_case,
    rows,
    walk,
    walks,
)

SHAPES = [(1, 16), (16, 16), (17, 16), (CHUNK, 16), (CHUNK + 1, 16), (700, 48), (300, 1), (90, 256)]


def case_of(num_tokens: int, block_size: int, **more) -> Case:
    """A sequence whose blocks lie in the pool back to front, with others' between them."""
    num_used = -(-num_tokens // block_size)
    table = [2 * place + 1 for place in reversed(range(num_used))]
    more = {"needle": num_tokens // 2, **more}
    return make_case(table, num_tokens, block_size, 2 * num_used + 1, **more)


@pytest.mark.parametrize(("num_tokens", "block_size"), SHAPES)
@pytest.mark.parametrize("name", ["block by block", "CPU kernel", "GPU kernel"])
def test_every_walk_gives_what_dense_attention_gives(num_tokens, block_size, name):
    case = case_of(num_tokens, block_size)
    known = walks(block_size, num_tokens)
    if name not in known:
        pytest.skip("no Triton here")
    for head in range(NUM_HEADS):
        found = walk(case, known[name], head)
        assert torch.allclose(found.output, dense_attention(case, head), atol=1e-5)
        assert max(found.errors.values()) < 1e-5


@pytest.mark.parametrize(("num_tokens", "block_size"), SHAPES)
def test_the_cpu_walk_is_the_cpu_kernels_own_to_its_last_bits(num_tokens, block_size):
    case = case_of(num_tokens, block_size)
    walked = torch.stack([walk(case, Walk(TILE, CHUNK), head).output for head in range(NUM_HEADS)])
    assert torch.allclose(walked, by_engine(case, "cpu"), atol=5e-6)


def test_the_running_numbers_are_those_of_all_tokens_seen_so_far():
    case = case_of(200, 16)
    keys, _ = rows(case, 0, 0, 200)
    scores = keys @ case.query[0] / HEAD_DIM**0.5
    for step in walk(case, Walk(16, 200)).steps:
        seen = scores[: step.last]
        assert step.top == pytest.approx(float(seen.max()), abs=1e-6)
        assert math.log(step.total) + step.top == pytest.approx(float(seen.logsumexp(0)), abs=1e-5)


def test_blocks_are_read_in_the_tables_order_and_each_token_once():
    case = case_of(700, 48)
    steps = walk(case, Walk(TILE, CHUNK)).steps
    assert [token for step in steps for token in range(step.first, step.last)] == list(range(700))
    for step in steps:
        assert step.blocks == list(range(step.first // 48, (step.last - 1) // 48 + 1))
        assert step.first // CHUNK == (step.last - 1) // CHUNK == step.chunk


def test_a_needle_takes_over_the_maximum_and_nearly_all_the_weight():
    steps = walk(case_of(64, 16, needle=40), Walk(16, 64)).steps
    before, at = steps[1], steps[2]
    assert at.top > before.top + 2
    assert at.rescale == pytest.approx(math.exp(before.top - at.top), rel=1e-5)
    assert at.rescale < 0.1


def test_shares_of_the_chunks_sum_to_one_and_one_of_them_is_not_rescaled():
    parts = walk(case_of(3 * CHUNK - 5, 16), Walk(TILE, CHUNK)).parts
    assert [(part.first, part.last) for part in parts] == [(0, 256), (256, 512), (512, 763)]
    assert sum(part.share for part in parts) == pytest.approx(1, abs=1e-6)
    assert max(part.scale for part in parts) == 1


def test_what_others_hold_is_never_read():
    case = case_of(50, 16)
    assert torch.isnan(case.keys).any()
    assert not torch.isnan(walk(case, Walk(16, 50)).output).any()


def test_powers_of_two_give_the_same_weights():
    case = case_of(300, 16)
    one, other = (walk(case, Walk(32, 256, is_base_2=flag)) for flag in (False, True))
    assert torch.allclose(one.output, other.output, atol=1e-6)
    assert [step.total for step in one.steps] == pytest.approx([step.total for step in other.steps], rel=1e-5)
