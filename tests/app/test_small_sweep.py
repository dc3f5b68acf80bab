"""The Sweeps page's numbers, without the page."""

import pytest

from app.paper.published import FIGURE_13, FIGURE_18B
from app.paper.servers import saturated, while_waiting
from app.small_sweep import MEASURES, MOST_RUNS, Sweep, crossing, parse_values, published, rows
from app.sweep_charts import alternative, chart
from sim import Config, InputError, simulate
from sim.trace import Trace


def test_a_policy_sweep_says_what_the_papers_own_page_says():
    by_policy = {row["policy"]: row for row in rows(Sweep(num_requests=1000))}
    for policy in ("max", "oracle", "paged"):
        batch, shares = while_waiting(saturated("sharegpt", policy))
        assert by_policy[policy]["batch"] == pytest.approx(batch, rel=0.05)
        assert by_policy[policy]["live_percent"] == pytest.approx(shares["live"], rel=0.05)


def test_a_point_is_the_run_that_its_dials_name():
    sweep = Sweep(
        lengths="demo", dial="pool_tokens", values=(1024, 4096), policies=("paged",), num_requests=30
    )
    run = simulate(Trace.read("demo").first(30), Config(pool_tokens=1024, seed=1), record=False)
    first, second = rows(sweep)
    assert first["x"] == 1024 and first["preemptions"] == run.num_preemptions
    assert first["waste_percent"] == run.report()["waste_percent"]
    assert second["preemptions"] < first["preemptions"]


def test_rates_scale_a_built_in_trace():
    rising = Sweep(lengths="demo", dial="rate", values=(1, 1000), policies=("max",), num_requests=30)
    slow, fast = rows(rising)
    assert fast["latency"] > slow["latency"]


def test_published_points_stand_where_the_paper_has_them():
    by_size = Sweep(dial="block_size", values=(16,), policies=("paged",))
    assert {row["x"]: row["latency"] for row in published(by_size, "latency")} == FIGURE_18B["sharegpt"]
    by_pool = Sweep(dial="pool_tokens", values=(4096,))
    assert {row["policy"]: row["batch"] for row in published(by_pool, "batch")} == FIGURE_13["sharegpt"]
    assert {row["x"] for row in published(by_pool, "batch")} == {15_728}
    assert published(Sweep(lengths="demo"), "batch") == []
    assert published(Sweep(policies=("slab",)), "batch") == []


def test_a_crossing_lies_between_the_rates_around_it():
    points = [{"policy": "max", "x": x, "latency": y} for x, y in ((1, 0.1), (2, 0.25), (4, 1.0))]
    assert crossing(points, "max") == pytest.approx(2.828, abs=0.001)
    assert crossing(points[:2], "max") is None


@pytest.mark.parametrize(
    ("text", "dial", "told"),
    [
        ("8, x", "block_size", "values, 'x': must be a number"),
        ("0", "rate", "values, '0': must be above 0"),
        ("nan", "rate", "must be above 0"),
        ("1e999", "rate", "finite"),
        ("1.5", "block_size", "must be a whole number of block size"),
    ],
)
def test_a_value_that_is_none_is_named(text, dial, told):
    with pytest.raises(InputError) as caught:
        parse_values(text, dial)
    assert told in str(caught.value)


def test_values_are_sorted_and_told_once():
    assert parse_values("32 8,8, 16", "block_size") == (8, 16, 32)


@pytest.mark.parametrize(
    ("dials", "told"),
    [
        ({"policies": ()}, "policies: none"),
        (
            {"dial": "block_size", "values": (8,), "policies": ("max", "paged")},
            "policies max: have no blocks",
        ),
        ({"dial": "rate"}, "values: there is none"),
        ({"dial": "rate", "values": tuple(range(1, 20))}, f"76 runs, and this page makes {MOST_RUNS}"),
        ({"num_requests": 0}, "requests 0"),
        ({"num_requests": 1001}, "requests 1001"),
    ],
)
def test_what_is_too_much_or_makes_no_sense_is_refused(dials, told):
    with pytest.raises(InputError, match=told):
        Sweep(**dials)


def test_a_run_that_cannot_be_is_told_with_its_policy():
    with pytest.raises(InputError, match=r"^paged: "):
        rows(Sweep(dial="pool_tokens", values=(8,), policies=("paged",), num_requests=5))


@pytest.mark.parametrize("dial", ["allocator", "pool_tokens"])
def test_a_chart_has_ours_the_papers_and_words(dial):
    sweep = Sweep(dial=dial, values=(4096, 8192) if dial != "allocator" else (), num_requests=20)
    found, paper = rows(sweep), published(sweep, "batch")
    drawn = chart(found, paper, measure="batch", x="x", y="y").to_dict()
    assert [layer["mark"]["type"] for layer in drawn["layer"]] == [
        "bar" if dial == "allocator" else "line",
        "point",
    ]
    assert len(drawn["layer"][0]["data"]["values"]) == len(found)
    words = alternative(found, paper, measure="batch", y=MEASURES["batch"])
    assert "paged" in words and "4 points printed in the paper" in words
