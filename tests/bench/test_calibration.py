"""`python -m bench.calibration`: what the committed files say of themselves is what their runs add up to."""

import json
from pathlib import Path
from typing import Any

import pytest

from bench.calibration import SERVERS, server, summary
from sim.additive_timing import AdditiveTiming

RESULTS = Path(__file__).parents[2] / "bench/results"
NAMES = {model.partition("-")[0]: model for model in SERVERS}


def run(**errors: float) -> dict[str, Any]:
    return {"figures": {name.replace("_", " "): {"error_percent": error} for name, error in errors.items()}}


def test_a_target_is_met_or_missed_by_each_run_in_either_direction() -> None:
    found = summary(
        [run(ttft_p50=-5.1, ttft_p95=-9), run(ttft_p50=4.9, ttft_p95=12), run(ttft_p50=8, ttft_p95=0)]
    )
    assert found["ttft p50"] == {"errors": [-5.1, 4.9, 8], "median": 4.9, "target": 5.0, "runs_met": 1}
    assert found["ttft p95"] == {"errors": [-9, 12, 0], "median": 0, "target": 10.0, "runs_met": 2}


@pytest.mark.parametrize("name", NAMES)
def test_the_committed_calibration_is_a_timing_file_with_its_command(name: str) -> None:
    path = RESULTS / f"calibration_{name}.json"
    kept = json.loads(path.read_text(encoding="utf-8"))
    assert (
        kept["command"]
        == f"pagelab bench calibrate {' '.join(server(NAMES[name]))} --repeats {kept['repeats']}"
    )
    assert kept["config"]["model"] == NAMES[name]
    assert AdditiveTiming.read(path).step > 0


@pytest.mark.parametrize("name", NAMES)
def test_the_committed_forecast_is_summed_up_from_its_runs(name: str) -> None:
    kept = json.loads((RESULTS / f"forecast_{name}.json").read_text(encoding="utf-8"))
    assert kept["figures"] == summary(kept["forecasts"])
    assert kept["machine"]["cores"] == 2
    assert f"--timing bench/results/calibration_{name}.json" in kept["command"]
