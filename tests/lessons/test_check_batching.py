"""Lesson 6's checks tell a wrong answer from a right one."""

import pytest

from lessons.checks import batching
from tests.lessons.wrong import assert_caught


def leaves_out_what_is_written(batch, context, model, device):
    num_bytes = model.weights_bytes() + model.kv_bytes_per_token("fp16") * context
    return num_bytes / device.bandwidth_bytes_per_s


@pytest.mark.parametrize(
    ("check", "wrong"),
    [
        (batching.static_steps, lambda outputs, num_seats: sum(outputs)),
        (batching.static_steps, lambda outputs, num_seats: max(outputs)),
        (batching.continuous_steps, lambda outputs, num_seats: max(outputs)),
        (batching.continuous_steps, lambda outputs, num_seats: -(-sum(outputs) // num_seats)),
        (batching.roofline, lambda batch, context, model, device: None),
        (batching.roofline, leaves_out_what_is_written),
    ],
)
def test_a_wrong_answer_is_shown_with_a_picture(monkeypatch, check, wrong):
    assert_caught(monkeypatch, check, wrong)


def test_no_limit_of_the_server_but_its_seats_decides_how_many_steps_it_takes():
    run = batching.serve([12] * 20, 4, "continuous")
    assert run.num_preemptions == 0
    assert run.series.column("running").max() == 4
