"""`python -m bench.gpu` waits for a GPU that is seldom to hand: a slip of the pen must not be found there."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.gpu.__main__ import guarded, sections, targets
from tests.engine.attention.processes import ROOT

pytest.importorskip("triton")


def test_the_script_runs_every_section_to_its_end_and_claims_no_figure(tmp_path: Path) -> None:
    out = tmp_path / "gpu.json"
    command = [sys.executable, "-m", "bench.gpu", "--smoke", "--out", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    document = json.loads(out.read_text())
    assert list(document["sections"]) == ["copy_bandwidth", *sections()]
    for name, section in document["sections"].items():
        assert section.get("result"), (name, section)
    checks = document["sections"]["correctness"]["result"]
    assert all(row["ok"] for row in checks.values()), checks
    compared = document["sections"]["peers"]["result"]["decode B1 S32k: torch SDPA"]
    assert compared["max_difference_from_ours"] < 1e-5
    agreement = document["sections"]["spine"]["result"]["agreement"]
    assert agreement["block_tables_identical"]
    assert agreement["first_difference"] is None
    assert all(row["measured"] is None and row["met"] is None for row in document["targets"])


def test_a_section_that_fails_leaves_its_traceback_and_the_next_one_runs() -> None:
    def broken() -> dict:
        raise RuntimeError("no such kernel")

    assert "no such kernel" in guarded(broken)["error"]
    assert guarded(lambda: {"a": 1})["result"] == {"a": 1}


def test_targets_are_judged_by_what_was_measured() -> None:
    found = {
        "decode": {"result": {"B32": {"kv_bytes": 3e8, "share_of_copy": 0.91}, "small": {"kv_bytes": 1e6}}},
        "block_sizes": {"result": {"16": {"slower_than_contiguous": 0.05}}},
        "prefill": {"error": "Traceback"},
        "peers": {
            "result": {"8k: pagelab": {"seconds": 1.0}, "8k: other": {"seconds": 1.2}, "8k: third": {}}
        },
    }
    rows = {row["target"]: row["met"] for row in targets(found, is_smoke=False)}
    assert rows == {
        "decode B32: share of copy bandwidth": True,
        "pages of 16 slower than contiguous": False,
        "prefill 8k causal, FLOP/s": None,
        "correct": None,
        "8k: ahead of other": True,
    }
