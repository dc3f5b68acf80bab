"""One row a step; means weighted by how long a step took."""

import io
from random import Random

import numpy as np
import pytest

from sim import Config, simulate
from sim.series import COLUMNS, exact_dot
from tests.making import requests


@pytest.fixture
def hand_made(tmp_path):
    """Three steps of 5, 2 and 9 s (1 s and 1 s a token), and 93 s of idle time between the last two."""
    costs = tmp_path / "costs.json"
    costs.write_text('{"seconds": {"step": 1, "token": 1}}')
    return simulate(requests((4, 2), (8, 1, 100.0)), Config(pool_blocks=4, block_size=4, timing=str(costs)))


def test_each_step_is_one_row(hand_made):
    rows = list(hand_made.series.rows())
    #  step, time, pool, live, reserved, internal, rounding, cached, external, free, running, waiting, swapped
    assert rows == [
        (1, 5.0, 16, 4, 0, 0, 0, 0, 0, 12, 1, 0, 0),
        (2, 7.0, 16, 5, 0, 3, 0, 0, 0, 8, 1, 0, 0),
        (3, 109.0, 16, 8, 0, 0, 0, 0, 0, 8, 1, 0, 0),
    ]
    assert hand_made.series.column("duration").tolist() == [5.0, 2.0, 9.0]


def test_means_are_weighted_by_duration_over_busy_time_and_idle_time_is_beside_them(hand_made):
    assert hand_made.ledger == {
        "pool": 16.0,
        "live": (4 * 5 + 5 * 2 + 8 * 9) / 16,
        "reserved": 0.0,
        "internal": 3 * 2 / 16,
        "rounding": 0.0,
        "cached": 0.0,
        "external": 0.0,
        "free": (12 * 5 + 8 * 2 + 8 * 9) / 16,
    }
    assert (hand_made.time_s, hand_made.idle_s) == (109.0, 93.0)


def test_the_csv_has_the_contracts_columns_and_one_row_a_step(hand_made):
    out = io.StringIO()
    hand_made.series.write_csv(out)
    lines = out.getvalue().splitlines()
    assert lines[0] == (
        "step,time,pool,live,reserved,internal,rounding,cached,external,free,running,waiting,swapped"
    )
    assert lines[2] == "2,7.0,16,5,0,3,0,0,0,8,1,0,0"
    assert len(lines) == 1 + hand_made.num_steps
    assert tuple(lines[0].split(",")) == COLUMNS


def test_no_steps_have_mean_zero_and_a_header():
    series = simulate(requests((99, 1)), Config(pool_blocks=1)).series
    assert series.mean("live") == 0.0
    out = io.StringIO()
    series.write_csv(out)
    assert out.getvalue().count("\n") == 1


@pytest.mark.parametrize("count", [0, 1, 1023, 1024, 1025, 5000])
def test_the_weighted_sum_is_exact_where_64_bits_would_overflow(count):
    random = Random(count)
    counts = [random.randrange(2**31) for _ in range(count)]
    weights = [random.randrange(2**62) for _ in range(count)]
    expected = sum(a * b for a, b in zip(counts, weights, strict=True))
    assert exact_dot(np.array(counts, np.int64), np.array(weights, np.int64)) == expected


def test_the_weighted_sum_is_exact_at_its_limits():
    counts, weights = np.full(4096, 2**31 - 1), np.full(4096, 2**62 - 1)
    assert exact_dot(counts, weights) == 4096 * (2**31 - 1) * (2**62 - 1)


def test_on_step_sees_every_row_and_how_many_requests_have_ended():
    seen = []
    trace = requests((4, 2), (999, 1), (4, 3))
    config = Config(timing="unit", pool_blocks=4, block_size=4)
    simulate(trace, config, on_step=lambda row, ended: seen.append((row.step, row.running, ended)))
    assert seen == [(1, 2, 1), (2, 2, 2), (3, 1, 3)]
