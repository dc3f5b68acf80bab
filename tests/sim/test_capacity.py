"""The highest rate that meets a target lies where meeting it ends."""

import pytest

from sim import Config, InputError, Trace, simulate
from sim.capacity import PRECISION, Target, bracket, efficient, find_capacity, usual_rate
from sim.costs import Costs
from tests.making import requests

TRACE = Trace.read("sharegpt-like").first(150)


def value_at(rate: float, config: Config, target: Target) -> float:
    report = simulate(TRACE.scale_rate(rate / usual_rate(TRACE)), config, record=False).report()
    value = target.value(report)
    assert value is not None
    return value


@pytest.mark.parametrize("text", ["ttft-p95=0.5", "tpot-mean=0.03", "e2e-p50=9"])
def test_the_target_is_met_at_the_capacity_and_missed_just_above_it(text):
    target, config = Target.parse(text), Config()
    found = find_capacity(TRACE, config, [target])
    assert found.best and found.is_bounded
    assert value_at(found.best.rate, config, target) <= target.seconds
    above = min(point.rate for point in found.points if not point.is_met and point.rate > found.best.rate)
    assert above <= found.best.rate * (1 + PRECISION)
    assert value_at(above, config, target) > target.seconds


def test_it_is_the_rate_that_trying_every_rate_finds():
    """Bisection against the slow way, on a server with one bend: one request at a time, all alike."""
    trace = requests(*((10, 10, float(place)) for place in range(30)))
    config = Config(timing="unit", max_seqs=1)
    target = Target.parse("ttft-p95=100")
    found = find_capacity(trace, config, [target])
    met = [
        rate / 1000
        for rate in range(50, 250)
        if target.is_met(simulate(trace.scale_rate(rate / 1000), config, record=False).report())
    ]
    assert found.best
    assert met[-1] / (1 + PRECISION) <= found.best.rate <= met[-1] * (1 + PRECISION) + 0.001


def test_all_targets_must_be_met():
    both = [Target.parse("ttft-p95=0.5"), Target.parse("tpot-p95=0.03")]
    alone = [find_capacity(TRACE, Config(), [target]).best for target in both]
    together = find_capacity(TRACE, Config(), both).best
    assert together and all(alone)
    assert together.rate == pytest.approx(min(point.rate for point in alone if point), rel=2 * PRECISION)


def test_a_target_that_no_rate_meets_has_no_capacity_and_one_that_all_meet_no_bound():
    assert find_capacity(TRACE, Config(), [Target.parse("ttft-p95=1e-9")]).best is None
    assert not find_capacity(TRACE, Config(), [Target.parse("ttft-p95=1e9")]).is_bounded


def test_a_search_that_is_ended_keeps_what_it_has_tried_and_says_so():
    target, config = Target.parse("ttft-p95=0.5"), Config()
    whole = find_capacity(TRACE, config, [target])
    tried: list[float] = []
    found = find_capacity(
        TRACE, config, [target], lambda point: tried.append(point.rate), lambda: len(tried) == 6
    )
    assert found.is_stopped and not whole.is_stopped
    assert {point.rate for point in found.points} < {point.rate for point in whole.points}
    assert found.best and whole.best and found.best in found.points
    assert 0 < found.best.rate < whole.best.rate
    at_once = find_capacity(TRACE, config, [target], is_over=lambda: True)
    assert (at_once.best, at_once.points, at_once.is_stopped) == (None, (), True)


def test_a_server_that_rejects_everything_meets_no_target():
    assert find_capacity(TRACE, Config(pool_blocks=1), [Target.parse("ttft-p95=1e9")]).best is None


@pytest.mark.parametrize("edge", [0.003, 0.4, 1.0, 1.7, 900.0])
def test_the_bracket_holds_the_edge_wherever_it_is(edge):
    low, high = bracket(lambda scale: scale <= edge)
    assert low is not None
    assert high == 2 * low
    assert low <= edge < high


@pytest.mark.parametrize(
    "text",
    [
        "ttft",
        "ttft-p95",
        "ttft-p90=1",
        "speed-p95=1",
        "ttft-p95=0",
        "ttft-p95=-1",
        "ttft-p95=1.2.3",
        "ttft-p95=1e999",
    ],
)
def test_a_target_that_means_nothing_is_refused(text):
    with pytest.raises(InputError, match="must be such as ttft-p95"):
        Target.parse(text)


def test_a_trace_without_a_rate_is_refused():
    with pytest.raises(InputError, match="arrive at once"):
        usual_rate(requests((1, 1), (1, 1)))


def test_a_million_tokens_cost_what_the_device_costs_while_it_makes_them():
    report = {"throughput": {"tokens_per_s": 1000.0}}
    costs = Costs(price_per_hour=3.6, power_w=500).of(report, num_devices=2)
    assert costs == {  # 1,000 s on two devices: 0.2778 h at 3.6 each, and 1 kW
        "cost_per_million_tokens": pytest.approx(2.0),
        "kwh_per_million_tokens": pytest.approx(1000 / 3600),
    }
    assert Costs().of(report, 1) == {"cost_per_million_tokens": None, "kwh_per_million_tokens": None}
    with pytest.raises(InputError, match="price per hour -1"):
        Costs(price_per_hour=-1)


def test_a_point_is_efficient_unless_another_is_as_good_in_everything_and_better_in_something():
    points = [(1.0, 5.0, 2.0), (1.0, 4.0, 2.0), (2.0, 9.0, 2.0), (2.0, 9.0, 3.0), (1.0, 5.0, 2.0)]
    assert efficient(points) == [True, False, True, False, True]
