"""Lesson 13's museum: what `fails` says of its pieces. The pieces' own faults are caught in the lesson."""

import pytest

from lessons.checks import core, museum, museum_caches, museum_numbers
from tests.lessons.wrong import assert_caught


def test_a_piece_without_a_fault_is_not_shown(monkeypatch):
    monkeypatch.setattr(core, "display", lambda picture: None)
    with pytest.raises(AssertionError, match="passes: its fault is not seen"):
        museum.fails(museum.undo, lambda free, taken: [*taken, *free])
    museum.fails(museum.undo, lambda free, taken: [*free, *taken])


@pytest.mark.parametrize(
    ("check", "wrong"),
    [
        (museum.last_block, lambda table, length, block_size: table[length // block_size - 1]),
        (museum.blocks_to_free, lambda stored, window, block_size: max(0, stored - window) // block_size),
        (museum.release, lambda table, free: free + sorted(set(table))),
        (museum.allocate, lambda free, count: (free[:count], free[count:])),
        (museum_caches.adopt, lambda table, cached: (cached + table[len(cached) :], table[: len(cached)])),
        (museum_caches.to_compute, lambda prompt, cached, size: prompt - cached * size or size),
        (museum_caches.block_keys, lambda tokens, start, stop, size: [tuple(tokens[:stop])]),
        (museum_caches.cache_key, lambda tokens, adapter, salt: (tokens, adapter)),
        (museum_caches.cache_key, lambda tokens, adapter, salt: object()),
        (museum_caches.lock, lambda parents, node: [node]),
        (museum_numbers.total_weight, lambda scores: 1.0),
        (museum_numbers.offsets, lambda blocks, stride: [0 for _ in blocks]),
        (museum_numbers.attend, lambda query, keys, values, k_scale, v_scale: values[0] * v_scale),
        (museum_numbers.steady_sum, lambda terms, batch: 0.0),
    ],
)
def test_another_wrong_answer_is_shown_with_a_card(monkeypatch, check, wrong):
    assert_caught(monkeypatch, check, wrong)
