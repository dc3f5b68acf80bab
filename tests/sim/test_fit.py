"""A timing model fitted to timed steps: what went in must come out, and its error must be honest."""

import json
from dataclasses import replace
from random import Random

import pytest

from sim.additive_timing import AdditiveTiming
from sim.closed_timing import Totals
from sim.fit import Step, as_document, cross_validate, fit

TRUTH = AdditiveTiming(
    step=0.002, sequence=1e-4, context_token=3e-7, attention_pair=2e-7, swapped_block=5e-5, copied_token=1e-6,
    curve=((1, 0.0), (8, 0.001), (64, 0.02), (512, 0.3)),
)  # fmt: skip


def timed(truth: AdditiveTiming, count: int = 300, noise: float = 0.0) -> list[Step]:
    """`count` steps of all kinds, ten to an experiment, that took what `truth` says."""
    random, steps = Random(7), []
    for number in range(count):
        sequences = random.choice((1, 2, 5, 8, 20, 40))
        prompt = random.choice((0, 0, 8, random.randrange(1, 480)))
        tokens = sequences + prompt
        context = tokens + random.randrange(1, 300) * sequences
        swapped, copied = random.choice(((0, 0), (0, 0), (12, 0), (0, 16)))
        totals = Totals(tokens, sequences, context, context + prompt * prompt // 2, swapped, copied)
        seconds = truth.cost(*totals) * (1 + noise * random.uniform(-1, 1))
        steps.append(Step(f"experiment {number // 10}", totals, seconds))
    return steps


def test_a_fit_foretells_steps_that_it_never_saw():
    error = cross_validate(timed(TRUTH))
    assert error.num_steps == 300
    assert error.median_percent < 1.0  # the curve's bends are put near the true ones, not on them
    assert abs(error.total_percent) < 1.0


def test_a_fit_finds_the_true_costs_where_it_can_follow_the_curve():
    truth = replace(TRUTH, curve=((1, 0.0), (600, 0.3)))
    found = fit(timed(truth))
    for name in ("context_token", "attention_pair", "swapped_block", "copied_token"):
        assert getattr(found, name) == pytest.approx(getattr(truth, name), rel=0.01), name


def test_what_no_experiment_did_costs_nothing():
    steps = [step for step in timed(TRUTH) if not step.totals.swapped]
    assert fit(steps).swapped_block == 0.0


def test_noise_that_cannot_be_foretold_shows_as_error():
    error = cross_validate(timed(TRUTH, noise=0.3))
    assert 8 < error.median_percent < 25
    assert error.p95_percent > 1.5 * error.median_percent


def test_costs_are_never_negative_even_where_that_would_fit_better():
    steps = [Step(f"e{n}", Totals(n, 1, 1000 - n, 1000 - n, 0, 0), 1.0 + 0.001 * n) for n in range(1, 400)]
    found = fit(steps)
    assert min(found.step, found.sequence, found.context_token, found.attention_pair) >= 0
    assert [seconds for _, seconds in found.curve] == sorted(seconds for _, seconds in found.curve)


def test_what_a_fit_writes_is_what_a_timing_file_holds(tmp_path):
    steps = timed(TRUTH)
    found = fit(steps)
    path = tmp_path / "timing.json"
    path.write_text(json.dumps(as_document(found, cross_validate(steps), machine="any")))
    again = AdditiveTiming.read(path)
    assert [again.cost(*step.totals) for step in steps] == [found.cost(*step.totals) for step in steps]
