"""Numbers and arrays give the same bits; a lazy clock the same time as an eager one."""

from itertools import pairwise
from random import Random

import numpy as np
import pytest

from sim import Config, InputError, simulate
from sim.additive_timing import AdditiveTiming
from sim.clock import MAX_STEP_S, all_step_ps, all_to_s, step_ps, to_s
from sim.closed_timing import TimingModel
from sim.leap.clock import MANY, MOST, LazyClock, Load
from sim.timing import UnitTiming, make_timing
from tests.making import requests

MODELS = {
    "unit": UnitTiming(),
    "roofline, memory-bound": make_timing(Config()),
    "roofline, compute-bound": make_timing(Config(hardware="laptop", model="opt-175b")),
    "additive": AdditiveTiming(0.011, 0.0013, 3.1e-7, 7.7e-9, 0.0021, sequence=1.7e-4),
    "with a curve": AdditiveTiming(0.011, 0.0, 3.1e-7, 7.7e-9, curve=((1, 0.001), (7, 0.0013), (90, 0.19))),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_gives_numbers_and_arrays_the_same_bits(name):
    random, cost = Random(name), MODELS[name].cost
    loads = [
        [random.randrange(1, 10**exponent) for exponent in (6, 6, 12, 13, 5, 6)] for _ in range(3000)
    ]  # tokens, sequences, context, pairs, swapped, copied
    seconds = cost(*np.array(loads, dtype=np.int64).T)
    assert seconds.tolist() == [cost(*load) for load in loads]
    steps = [step_ps(one) for one in seconds.tolist() if one <= MAX_STEP_S]
    assert all_step_ps(seconds[seconds <= MAX_STEP_S]).tolist() == steps


@pytest.mark.parametrize("name", MODELS)
def test_decode_steps_cost_what_each_alone_costs_and_never_get_shorter(name):
    random, model = Random(name), MODELS[name]
    for _ in range(300):
        sequences, context, count = (
            random.randint(1, 300),
            random.randrange(300, 10**6),
            random.randint(1, 60),
        )
        contexts = range(context, context + count * sequences, sequences)
        steps = model.decode_ps(sequences, context, count)
        assert steps == [step_ps(model.cost(sequences, sequences, one, one)) for one in contexts]
        assert all(before <= after for before, after in pairwise(steps))


def test_halves_are_rounded_alike():
    seconds = np.array([0.5e-12, 1.5e-12, 2.5e-12, 3.5e-12, 0.0, 1e-13])
    assert all_step_ps(seconds).tolist() == [step_ps(one) for one in seconds.tolist()] == [1, 2, 2, 4, 1, 1]


def test_seconds_of_large_times_are_rounded_alike():
    random = Random(0)
    times = [random.randrange(2**62) for _ in range(3000)] + [2**53 + 1, 10**12, 0]
    assert all_to_s(np.array(times)).tolist() == [to_s(one) for one in times]
    beyond = np.array([10**24 + 1, 2**64], dtype=object)
    assert all_to_s(beyond).tolist() == [to_s(10**24 + 1), to_s(2**64)]


def eager(model: TimingModel, stretches: list[tuple[int, ...]]) -> list[int]:
    """Each step's duration, one by one; a stretch is (steps, tokens, context, swapped blocks = 0)."""
    return [
        step_ps(model.cost(tokens, tokens, *[context + done * tokens] * 2, *swapped))
        for count, tokens, context, *swapped in stretches
        for done in range(count)
    ]


def load(tokens: int, context: int, swapped: int = 0) -> Load:
    one = Load()
    one.start(tokens, context - tokens)
    one.swapped = swapped
    return one


@pytest.mark.parametrize("name", MODELS)
def test_the_time_is_the_same_whenever_it_is_asked_for(name):
    random, model = Random(name), MODELS[name]
    stretches: list[tuple[int, ...]] = []
    for _ in range(200):
        count = random.choice((1, 1, 2, MANY, 500))
        swapped = random.choice((0, 9)) if count == 1 else 0  # only a step of its own swaps
        stretches.append((count, random.randint(1, 256), random.randint(256, 10**5), swapped))
    durations = eager(model, stretches)
    for often in (1.0, 0.1, 0.0):
        clock = LazyClock(model)
        for count, *totals in stretches:
            clock.run(load(*totals), count)
            if random.random() < often:
                clock.now_ps()
        assert clock.now_ps() == sum(durations)
        assert clock.durations.tolist() == durations


@pytest.mark.parametrize("name", MODELS)
def test_no_step_starts_at_the_deadline_or_later(name):
    random, model = Random(name), MODELS[name]
    clock = LazyClock(model)
    for _ in range(300):
        count, tokens, context = (
            random.choice((1, 7, 300)),
            random.randint(1, 256),
            random.randint(256, 10**5),
        )
        durations = eager(model, [(count, tokens, context)])
        start = clock.now_ps()
        ends = np.cumsum(durations).tolist()
        deadline = start + random.choice((1, ends[len(ends) // 2], ends[len(ends) // 3] + 1, ends[-1] + 1))
        done = 0
        while done < count and clock.now_ps() < deadline:
            done += clock.run_until(deadline, load(tokens, context + done * tokens), count - done)
        assert clock.now_ps() == start + ends[done - 1]
        assert done == count or ends[done - 1] >= deadline - start
        assert done == 1 or ends[done - 2] < deadline - start


def test_very_many_long_steps_do_not_overflow():
    clock = LazyClock(AdditiveTiming(step=3_000_000.0))
    clock.run(load(1, 5), MOST)
    clock.run_until(10**30, load(1, 5), MOST)
    assert clock.now_ps() == len(clock.durations) * 3_000_000 * 10**12
    assert len(clock.durations) > MOST


@pytest.mark.parametrize("output", [3, 2 * MANY])
def test_a_step_too_long_to_count_is_refused_leaping_or_not(tmp_path, output):
    costs = tmp_path / "costs.json"
    costs.write_text('{"seconds": {"step": 3999999, "context_token": 1}}')
    config = Config(timing=str(costs))
    for step_by_step in (True, False):
        with pytest.raises(InputError, match="at most 4000000 s"):
            simulate(requests((1, output)), config, record=False, step_by_step=step_by_step)
