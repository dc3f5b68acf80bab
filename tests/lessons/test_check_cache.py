"""Lesson 1's checks tell a wrong answer from a right one."""

import numpy as np
import pytest

from lessons.checks import cache
from tests.lessons.wrong import assert_caught


def without_the_two(layers, kv_heads, head_dim, element_bytes):
    return layers * kv_heads * head_dim * element_bytes


def stores_the_last_token(prompt, output, has_cache):
    return prompt + output if has_cache else sum(prompt + step for step in range(output))


def forgets_the_new_row(query, key, value, keys, values):
    return cache.attend_all(query, key, value, keys, values)[0], keys, values


def does_not_see_itself(query, key, value, keys, values):
    if not len(keys):
        return np.zeros(len(query)), key[None], value[None]
    out = cache.attend_all(query, keys[-1], values[-1], keys[:-1], values[:-1])[0]
    return out, np.vstack([keys, key]), np.vstack([values, value])


@pytest.mark.parametrize(
    ("check", "wrong"),
    [
        (cache.bytes_per_token, without_the_two),
        (cache.bytes_per_token, lambda *shape: None),
        (cache.counted_rows, stores_the_last_token),
        (cache.decode_step, forgets_the_new_row),
        (cache.decode_step, does_not_see_itself),
        (cache.decode_step, lambda *arrays: "no arrays"),
    ],
)
def test_a_wrong_answer_is_shown_with_a_picture(monkeypatch, check, wrong):
    assert_caught(monkeypatch, check, wrong)
