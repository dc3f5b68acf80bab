"""`python -m bench.gpu` waits for a GPU that is seldom to hand: a slip of the pen must not be found there."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from bench.gpu import ahead, correct, engine_paths, moves, peers, ragged, spine
from bench.gpu.__main__ import all_right, guarded, sections, targets
from bench.gpu.correct_moves import spread
from bench.gpu.here import Here
from engine.swap import HostBlocks
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
    paths = document["sections"]["engine"]["result"]
    assert [*paths] == ["graphs", "swap", "max", "native"]
    assert all(path["ok"] for path in paths.values()), paths
    assert document["sections"]["compiled"]["result"] == {"processes": 1, "jobs": 1, "failed": {}}
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
        "correctness: all right": None,
        "engine: all right": None,
        "8k: ahead of other": True,
    }


CPU = torch.device("cpu")


def test_a_check_that_is_wrong_or_for_which_there_was_no_time_is_not_correct() -> None:
    """Checks that were left out used to be left out of the share, too."""
    section: dict[str, Any] = {"result": {"a": {"ok": True}, "b": {"ok": True}}}
    assert all_right("x", section, is_smoke=False)["met"]
    row = all_right("x", {**section, "left_out": ["softcap", "sinks"]}, is_smoke=False)
    assert (row["measured"], row["met"], row["left_out"]) == (0.5, False, ["softcap", "sinks"])
    section["result"]["c"] = {"ok": False}
    assert all_right("x", section, is_smoke=False)["wrong"] == ["c"]
    for lost in ({"error": "Traceback"}, {"skipped": "331 s are gone"}):
        assert all_right("x", lost, is_smoke=False)["met"] is False


@pytest.mark.parametrize("name", [str(torch.float32), f"{torch.float32}, contiguous"])
def test_a_kernel_that_is_off_is_wrong_and_one_that_fails_too(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = ragged.Question.answer
    monkeypatch.setattr(ragged.Question, "answer", lambda self: answer(self) + 1e-3)
    assert not correct.attention(correct.CASES[name], CPU)["ok"]
    monkeypatch.setattr(ragged.Question, "answer", lambda self: 1 / 0)
    found = correct.outcome(lambda device: correct.attention(correct.CASES[name], device), CPU)
    assert found == {"ok": False, "error": "ZeroDivisionError: division by zero"}


def test_contiguous_cases_go_through_the_contiguous_functions_and_rare_features_come_first() -> None:
    names = list(correct.CASES)
    assert names.index("softcap") < names.index("head_dim 32")
    (first, *_) = correct.asked(correct.CASES["softcap, contiguous"], CPU)
    assert first.function.__name__ == "contiguous_attention"
    assert first.caches[0].isnan().any()


def test_sizes_of_numbers_reach_below_one() -> None:
    """10 ** torch.randint(-3, 4) is 0 where the exponent is negative."""
    assert spread((1000,), (-9, 8), CPU).min() < 1e-8


def test_sets_of_pairs_have_no_block_in_common() -> None:
    sets = moves.pair_sets(3, 100, 8, CPU)
    assert len(sets) == 8
    assert torch.cat(sets).unique().numel() == 8 * 3 * 2
    assert len(moves.pair_sets(16, 40, 8, CPU)) == 1


@pytest.mark.parametrize("section", [moves.copy, moves.swap, spine.spine, engine_paths.engine_paths])
def test_a_section_whose_time_is_up_leaves_its_cases_out_by_name(section: Any) -> None:
    here = Here(CPU, stop_at=0.0)
    section(here)
    assert here.left_out


def test_a_path_of_the_engine_that_is_stopped_half_way_is_left_out_and_one_that_loses_bits_is_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine_paths, "PATHS", {"swap": engine_paths.swap})
    here = Here(CPU, stop_at=time.perf_counter() + 0.3)
    assert engine_paths.engine_paths(here) == {}
    assert here.left_out[0].startswith("swap, stopped in step")
    restore = HostBlocks.restore

    def upside_down(self: HostBlocks, host_blocks: list[int], blocks: list[int]) -> None:
        restore(self, host_blocks, blocks[::-1])

    monkeypatch.setattr(HostBlocks, "restore", upside_down)
    found = engine_paths.engine_paths(Here(CPU))["swap"]
    assert not found["ok"]
    assert "tokens" in found["wrong"]


def test_a_peer_that_takes_its_process_down_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "conch"
    package.mkdir()
    (package / "__init__.py").write_text("import os\nos.abort()\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    rows = peers.apart("conch", Here(CPU))
    assert list(rows) == [f"{shape}: conch" for shape in peers.SHAPES]
    assert all("its process ended with -6" in row["skipped"] for row in rows.values())


def test_processes_that_compile_are_killed_when_their_time_is_up_and_every_case_has_a_job() -> None:
    here = Here(CPU, stop_at=time.perf_counter() + 0.2)
    assert ahead.ahead(here) == {"processes": 1, "jobs": 0, "failed": {}}
    assert here.left_out == ["the rest of process 0"]
    names = [*ahead.jobs(torch.device("cuda"))]
    assert [f"correctness: {name}" for name in correct.CASES] == names[: len(correct.CASES)]


def test_a_job_that_fails_says_so_and_the_next_one_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ahead, "jobs", lambda device: {"bad": lambda: 1 / 0, "good": lambda: None})
    ahead.work(torch.device("cuda"), 0, 1)
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert rows == [
        {"job": "bad", "error": "ZeroDivisionError: division by zero"},
        {"job": "good", "error": None},
    ]
