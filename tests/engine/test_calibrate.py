"""Calibration: designed batches, timed; and a forecast whose error is split into steps and queue."""

from dataclasses import replace

import numpy as np
import pytest

import engine.executor
from engine import measure
from engine.calibrate import calibrate
from engine.experiments import design
from engine.forecast import forecast
from sim import InputError, simulate
from tests.engine.running import CROWD, ROOMY, tiny


def test_no_experiment_meets_a_shortage_unless_swapping_is_what_it_times():
    config = tiny(pool_tokens=8192, preempt="swap", block_size=8, max_seqs=16)
    for experiment in design(config, 512):
        run = simulate(experiment.trace, experiment.config, record=False)
        assert run.outcomes.is_finished.all(), experiment.name
        assert (run.num_preemptions > 0) == experiment.name.startswith("swap"), experiment.name


BIG = tiny(pool_tokens=8192, max_len=640, preempt="swap")


def test_experiments_cover_batches_contexts_prompts_copies_and_swaps():
    kinds = {
        each.name.split()[0] for each in design(tiny(pool_tokens=8192, max_len=640, preempt="swap"), 512)
    }
    assert kinds == {"decode", "prefill", "prompts", "mixed", "copies", "swap"}


def test_a_calibration_times_every_step_of_every_experiment_with_what_it_was_made_of():
    done = calibrate(tiny(pool_tokens=2048, max_seqs=8), repeats=2, most_tokens=64, device="cpu")
    by_name = {step.experiment: step for step in done.steps}  # the last step of each
    assert all(step.seconds > 0 for step in done.steps)
    prefill = by_name["prefill 64"].totals
    assert (prefill.tokens, prefill.sequences, prefill.pairs) == (64, 1, 64 * 65 // 2)
    decode = by_name["decode 4 x 16"].totals
    assert (decode.tokens, decode.sequences, decode.context) == (4, 4, 4 * (16 + 5))
    copies = [step.totals.copied for step in done.steps if step.experiment == "copies 2"]
    assert max(copies) > 0
    assert done.config.timing == "unit"


def test_a_step_is_the_median_of_its_rounds(monkeypatch):
    """One slow round of three must not show."""
    rounds = iter(range(10**6))

    class Slow(engine.executor.Stopwatch):
        def __exit__(self, *exception: object) -> None:
            self.seconds = 1000.0 if next(rounds) < first_round else 1.0

    monkeypatch.setattr(engine.executor, "Stopwatch", Slow)
    first_round = 40  # clock readings: some of the first round, none of the others
    done = calibrate(tiny(pool_tokens=1024, max_seqs=8), repeats=3, most_tokens=64, device="cpu")
    assert {step.seconds for step in done.steps} == {1.0}


def test_one_that_is_stopped_keeps_its_whole_rounds_and_has_nothing_without_one():
    config = tiny(pool_tokens=1024, max_seqs=8)
    per_round = len(design(config, 64))
    for rounds in (1, 2):
        asked = iter(range(10**6))
        done = calibrate(
            config, repeats=3, most_tokens=64, device="cpu",
            is_over=lambda asked=asked, last=rounds * per_round + 2: next(asked) >= last,
        )  # fmt: skip
        assert done.repeats == rounds
        assert len({step.experiment for step in done.steps}) == per_round
    with pytest.raises(KeyboardInterrupt):
        calibrate(config, repeats=3, most_tokens=64, device="cpu", is_over=lambda: True)


def test_a_pool_without_room_for_experiments_is_refused():
    with pytest.raises(InputError, match=r"a pool of 64 slots.*use a larger pool"):
        calibrate(tiny(pool_tokens=64), device="cpu")


@pytest.fixture
def runs(tmp_path):
    """A trace simulated by a timing file, executed on its schedule, and on the clock's."""
    path = tmp_path / "timing.json"
    path.write_text('{"seconds": {"step": 0.05, "token": 0.002}}')
    config = tiny(**ROOMY, max_seqs=4)
    config = replace(config, timing=str(path))
    in_step = measure(CROWD, config, device="cpu", clock="modelled")
    return simulate(CROWD, config), in_step, measure(CROWD, config, device="cpu")


def test_the_two_parts_of_a_forecasts_error_make_up_the_whole(runs):
    for name, figure in forecast(*runs)["figures"].items():
        error, steps, queue = (1 + figure[f"{part}_percent"] / 100 for part in ("error", "steps", "queue"))
        assert error == pytest.approx(steps * queue), name
        assert figure["simulated"] > 0 and figure["measured"] > 0


def test_a_simulation_that_is_right_about_steps_has_no_error_of_the_steps(runs):
    simulated, in_step, free = runs
    seconds = simulated.series.column("duration").tolist()
    exact = replace(
        in_step,
        observations=[
            replace(seen, seconds=taken) for seen, taken in zip(in_step.observations, seconds, strict=True)
        ],
    )
    entry = forecast(simulated, exact, free)
    assert entry["steps"]["error"]["p95_percent"] == 0
    for name, figure in entry["figures"].items():
        assert figure["steps_percent"] == pytest.approx(0, abs=1e-6), name
        assert figure["queue_percent"] == pytest.approx(figure["error_percent"], abs=1e-6), name


def test_steps_twice_as_long_as_foretold_show_in_the_steps_and_not_in_the_queue(runs):
    """Against a free run that is the same schedule, all of the error is the steps'."""
    simulated, in_step, _ = runs
    slow = [2 * taken for taken in simulated.series.column("duration").tolist()]
    twice = replace(
        in_step,
        observations=[
            replace(seen, seconds=taken) for seen, taken in zip(in_step.observations, slow, strict=True)
        ],
    )
    entry = forecast(simulated, twice, in_step)
    assert entry["steps"]["error"]["total_percent"] == pytest.approx(-50)
    assert entry["figures"]["tpot p50"]["steps_percent"] == pytest.approx(-50)
    assert entry["figures"]["e2e p95"]["steps_percent"] == pytest.approx(-50, abs=0.1)


def test_idle_time_does_not_stretch_with_the_steps():
    trace = replace(CROWD, requests=(CROWD.requests[0], replace(CROWD.requests[1], arrival_s=1000.0)))
    config = tiny(**ROOMY)
    simulated = simulate(trace, config)
    in_step = measure(trace, config, device="cpu", clock="modelled")
    tripled = replace(in_step, observations=[replace(seen, seconds=3.0) for seen in in_step.observations])
    entry = forecast(simulated, tripled, in_step)
    busy = float(np.sum(simulated.series.column("duration")))
    emitted = sum(simulated.outcomes.emitted)
    throughput = entry["figures"]["throughput"]
    stretched = throughput["simulated"] / (1 + throughput["steps_percent"] / 100)
    assert emitted / stretched == pytest.approx(simulated.time_s + 2 * busy)
