"""Lesson 12's checks tell a wrong answer from a right one."""

import pytest

from lessons.checks import beyond
from sim import Config, Request, Trace, simulate
from tests.lessons.wrong import assert_caught


def one_too_few(stored, window, sinks, block_size):
    return beyond.blocks_of(stored, window - 1, sinks, block_size)


def forgets_the_sinks(stored, window, sinks, block_size):
    return beyond.blocks_of(stored, window, 0, block_size)


def cuts_heads(memory_bytes, ranks, model, kv_dtype):
    weights = 2 * -(-model.num_parameters // ranks)
    return max(0, (memory_bytes - weights) * ranks // model.kv_bytes_per_token(kv_dtype))


@pytest.mark.parametrize(
    ("check", "wrong"),
    [
        (beyond.speculation, lambda num_drafts, accept: 1 + num_drafts * accept),
        (beyond.speculation, lambda num_drafts, accept: None),
        (beyond.window, one_too_few),
        (beyond.window, forgets_the_sinks),
        (beyond.several_devices, cuts_heads),
        (beyond.several_devices, lambda *case: None),
    ],
)
def test_a_wrong_answer_is_shown_with_a_picture(monkeypatch, check, wrong):
    assert_caught(monkeypatch, check, wrong)


def test_a_window_holds_the_blocks_that_the_simulator_holds():
    request = Request(id="a", arrival_s=0.0, prompt=5, output=60, max_tokens=60)
    config = Config(window=10, sinks=3, pool_tokens=256, block_size=4, timing="unit")
    run = simulate(Trace("one", (request,)), config)
    for step in range(1, run.num_steps + 1):
        stored = 5 + step - 1
        table = run.at(step).block_tables["a"]
        held = [place for place, block in enumerate(table) if block != -1]
        assert held == beyond.blocks_of(stored, 10, 3, 4)
