"""Tensors of each request's own: the same tokens as from a pool, and what the framework took for them."""

from typing import Any

import pytest

from engine import MeasuredRun, measure
from sim import InputError, simulate
from tests.engine.running import CROWD, ROOMY, crowd, tiny
from tests.engine.test_groups import GROUPS

MAX: dict[str, Any] = {"allocator": "max", "pool_tokens": 450, "placement": "first-fit"}
CAT: dict[str, Any] = {"allocator": "grow", "pool_tokens": 260, "placement": "first-fit", "growth": "1"}
POLICIES = pytest.mark.parametrize("dials", [MAX, CAT], ids=["native-max", "native-cat"])


def native(dials: dict[str, Any], trace: Any = CROWD) -> MeasuredRun:
    return measure(trace, tiny(**dials), backend="cpu", device="cpu", clock="modelled", native=True)


@POLICIES
def test_its_own_tensors_emit_the_tokens_of_a_pool(dials: dict[str, Any]) -> None:
    assert native(dials).tokens == crowd(**ROOMY).tokens


@POLICIES
def test_its_ledger_is_the_simulated_one_of_the_schedule_that_it_follows(dials: dict[str, Any]) -> None:
    run, simulated = native(dials), simulate(CROWD, tiny(**dials))
    for name in ("live", "reserved", "internal"):
        assert run.series.column(name).tolist() == simulated.series.column(name).tolist(), name
    assert all(observation.faults.are_none for observation in run.observations)
    assert run.free_at_end == dials["pool_tokens"]


@POLICIES
def test_samples_and_beams_have_tensors_of_their_own_too(dials: dict[str, Any]) -> None:
    dials = {**dials, "pool_tokens": 2048}
    pool = measure(GROUPS, tiny(pool_tokens=2048), backend="cpu", device="cpu", clock="modelled")
    assert native(dials, GROUPS).tokens == pool.tokens


def test_the_longest_length_takes_far_more_memory_than_what_is_live_and_concatenation_none() -> None:
    longest, joined = (native(dials).meta["memory"]["native"] for dials in (MAX, CAT))
    assert (longest["policy"], joined["policy"]) == ("native-max", "native-cat")
    assert longest["counted_by"] == "resident"
    assert longest["tensor_bytes"] == 3 * 128 * 512  # three requests of 128 slots fit 450
    assert joined["tensor_bytes"] <= 260 * 512
    assert longest["live_bytes"] < 0.6 * longest["tensor_bytes"]


def test_the_report_names_the_policy() -> None:
    assert native(MAX).report()["allocator"] == "native-max"


@pytest.mark.parametrize(
    ("dials", "message"),
    [
        ({"allocator": "paged"}, "allocator paged with tensors of each request's own.*max .*grow"),
        ({"allocator": "max"}, "--placement buddy.*the framework places them.*first-fit"),
        ({**MAX, "kv_dtype": "int8"}, "--kv-dtype int8 with tensors of each request's own"),
    ],
)
def test_what_the_framework_cannot_do_is_refused(dials: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        native({"pool_tokens": 450, **dials})
