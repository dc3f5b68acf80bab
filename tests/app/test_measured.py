"""Simulated beside measured: a real run in its own process, and residuals that show a fault."""

from unittest.mock import patch

import pytest

from app.comparison import DEFAULTS, Comparison, compare_with, execute
from app.engine_job import Asked, work
from app.measured_report import tell
from app.residuals import residuals
from app.sidebar import ENGINE
from engine.blockwork import BlockWork
from sim import Config, Trace

SMALL = {"pool_tokens": 1024, "max_len": 512, **DEFAULTS}


def compared(**dials) -> Comparison:
    trace, config = Trace.read("demo").first(6), Config(**{**SMALL, **dials})
    return compare_with(execute(trace, config), trace, config)


def left(comparison: Comparison) -> dict[str, str]:
    return {row.quantity: row.left for row in residuals(comparison)}


def test_the_page_runs_what_compare_runs():
    assert ENGINE == DEFAULTS


def test_a_run_in_its_own_process_comes_back_with_everything_that_is_shown():
    heard: list[float] = []
    asked = Asked(Trace.read("demo").first(3), Config(**SMALL))
    told = work(asked, lambda share, what: heard.append(share))
    assert "every block table and every slot agrees" in told.sentence
    assert [side["source"] for side in told.sides] == ["simulated", "measured"]
    assert dict(told.machine)["device"] in ("cpu", "cuda")
    assert told.replay is not None and told.replay["start"] > 0
    assert len(told.files) == 5 and all(told.files.values())
    assert heard == sorted(heard) and heard[-1] == 1.0 and any(0 < share < 1 for share in heard)


@pytest.mark.parametrize("allocator", ["max", "paged"])
def test_a_sound_run_leaves_no_residual_in_memory(allocator):
    found = left(compared(allocator=allocator))
    time_and_process = ("seconds", "bytes the")
    assert {name: what for name, what in found.items() if not name.startswith(time_and_process)} == {
        name: "none" if " mean" not in name else "none at any step"
        for name in found
        if not name.startswith(time_and_process)
    }


def test_blocks_that_keep_what_they_held_show_as_a_residual_with_its_cause():
    with patch.object(BlockWork, "fill", lambda self, blocks: None):
        comparison = compared()
    found = left(comparison)
    assert found["block tables"] == "none"
    assert found["faulty slots"] != "none"
    assert found["slots not free at the end"] != "none"
    assert "differ in step" in tell(comparison).sentence


def test_modelled_seconds_are_compared_where_the_model_has_any():
    rows = {row.quantity: row for row in residuals(compared(timing="roofline"))}
    decodes = next(row for name, row in rows.items() if "decodes alone" in name)
    assert decodes.left.endswith("x modelled")
    assert float(decodes.measured) > float(decodes.simulated)
