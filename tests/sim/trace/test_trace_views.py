"""Filters, counts and the info of a trace."""

import json

import pytest

from sim.errors import InputError
from sim.request import Request
from sim.trace import Trace


def trace(*rows: tuple[float, int, int]) -> Trace:
    return Trace(
        "made",
        tuple(
            Request(id=f"r{place}", arrival_s=arrival, prompt=prompt, output=output, max_tokens=output)
            for place, (arrival, prompt, output) in enumerate(rows)
        ),
        skipped={"failed": 2},
    )


THREE = trace((1.0, 10, 5), (2.0, 20, 6), (4.0, 30, 7))


def ids(of: Trace) -> list[str]:
    return [request.id for request in of]


def test_counts_follow_from_the_requests():
    assert (THREE.num_requests, len(THREE), THREE.span_s) == (3, 3, 3.0)
    assert (THREE.prompt_tokens, THREE.output_tokens) == (60, 18)


def test_first_keeps_the_earliest_and_counts_the_rest():
    assert ids(THREE.first(2)) == ["r0", "r1"]
    assert THREE.first(2).skipped == {"failed": 2, "after the first 2": 1}


def test_a_filter_that_drops_nothing_counts_nothing_and_none_changes_the_original():
    assert THREE.first(3).skipped == {"failed": 2}
    assert ids(THREE) == ["r0", "r1", "r2"]
    assert THREE.skipped == {"failed": 2}


def test_between_keeps_its_start_leaves_out_its_end_and_shifts_nothing():
    kept = THREE.between(1.0, 4.0)
    assert [(request.id, request.arrival_s) for request in kept] == [("r0", 1.0), ("r1", 2.0)]
    assert kept.skipped["outside 1 to 4 s"] == 1


def test_max_total_counts_prompt_and_output_together():
    assert ids(THREE.max_total(26)) == ["r0", "r1"]
    assert THREE.max_total(26).skipped["longer than 26 tokens"] == 1


def test_scaling_the_rate_by_two_halves_every_arrival_and_nothing_else():
    scaled = THREE.scale_rate(2)
    assert [request.arrival_s for request in scaled] == [0.5, 1.0, 2.0]
    assert [request.prompt for request in scaled] == [10, 20, 30]


def test_filters_follow_one_another_and_keep_their_counts():
    assert THREE.max_total(26).first(1).skipped == {
        "failed": 2,
        "longer than 26 tokens": 1,
        "after the first 1": 1,
    }


@pytest.mark.parametrize(
    ("act", "complaint"),
    [
        (lambda: THREE.first(0), "first 0: must be at least 1"),
        (lambda: THREE.between(5, 9), "made: no request is left: all 3 are outside 5 to 9 s"),
        (lambda: THREE.max_total(3), "made: no request is left: all 3 are longer than 3 tokens"),
        (lambda: THREE.scale_rate(0), "rate scale 0: must be above 0"),
        (lambda: THREE.scale_rate(float("nan")), "rate scale nan: must be above 0"),
        (lambda: THREE.scale_rate(float("inf")), "rate scale inf: must be above 0"),
        (lambda: THREE.scale_rate(1e-300), "arrival"),
    ],
)
def test_a_filter_that_leaves_nothing_or_makes_no_sense_says_so(act, complaint):
    with pytest.raises(InputError, match=complaint):
        act()


def test_info_of_the_numbers_1_to_101_is_exact():
    info = trace(*((place / 2, place + 1, 2 * place + 1) for place in range(101))).info()
    assert info == {
        "name": "made", "requests": 101, "span_s": 50.0, "rate_per_s": 2.0,
        "prompt_tokens": 5151, "output_tokens": 10201,
        "prompt": {
            "mean": 51.0, "min": 1.0, "p5": 6.0, "p25": 26.0, "p50": 51.0, "p75": 76.0, "p95": 96.0,
            "p99": 100.0, "max": 101.0,
        },
        "output": {
            "mean": 101.0, "min": 1.0, "p5": 11.0, "p25": 51.0, "p50": 101.0, "p75": 151.0, "p95": 191.0,
            "p99": 199.0, "max": 201.0,
        },
        "skipped": {"failed": 2}, "notes": [],
    }  # fmt: skip
    assert json.loads(json.dumps(info)) == info


def test_requests_that_all_arrive_at_once_have_no_rate():
    assert trace((1.0, 1, 1), (1.0, 2, 2)).info()["rate_per_s"] is None


def test_an_empty_trace_has_no_quantiles_and_no_span():
    empty = Trace("empty", ())
    assert (empty.span_s, empty.info()["prompt"]) == (0.0, {})
