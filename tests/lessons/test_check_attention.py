"""Lesson 5's checks tell a wrong answer from a right one."""

import numpy as np
import pytest

from lessons.checks import attention
from tests.lessons.wrong import assert_caught


def forgets_to_scale_down(running, scores, values):
    top, total, sums = running
    new_top = max(top, scores.max())
    weights = np.exp(scores - (new_top if np.isfinite(new_top) else 0.0))
    return new_top, total + weights.sum(), sums + weights @ values


def takes_exponents_as_they_stand(running, scores, values):
    top, total, sums = running
    with np.errstate(over="ignore", invalid="ignore"):
        return max(top, scores.max()), total + np.exp(scores).sum(), sums + np.exp(scores) @ values


def reads_whole_blocks(query, keys, values, table, length):
    needed = table[: -(-length // keys.shape[1])]
    return attention.dense(query, np.concatenate(keys[needed]), np.concatenate(values[needed]))


def ignores_the_table(query, keys, values, table, length):
    return attention.dense(query, np.concatenate(keys)[:length], np.concatenate(values)[:length])


def adds_up_chunks(parts):
    with np.errstate(invalid="ignore"):
        return sum(part[2] for part in parts) / np.float64(sum(part[1] for part in parts))


@pytest.mark.parametrize(
    ("check", "wrong"),
    [
        (attention.one_fold, forgets_to_scale_down),
        (attention.one_fold, takes_exponents_as_they_stand),
        (attention.one_fold, lambda *case: None),
        (attention.over_blocks, reads_whole_blocks),
        (attention.over_blocks, ignores_the_table),
        (attention.over_blocks, lambda *case: None),
        (attention.of_chunks, adds_up_chunks),
        (attention.of_chunks, lambda parts: parts[0][2]),
    ],
)
def test_a_wrong_answer_is_shown_with_a_picture(monkeypatch, check, wrong):
    assert_caught(monkeypatch, check, wrong)
