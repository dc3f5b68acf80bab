"""The real vLLM as the third column of `pagelab compare`: our weights, our trace, its own block pool.

`make test-peers` runs it. The model is made here: small, with heads that vLLM's CPU attention has.
"""

import json
from pathlib import Path

import pytest
import torch

from app.cli import run as pagelab
from engine.checkpoint.export import export
from engine.model import LlamaModel
from sim.spec import llama_spec
from tests.making import requests
from tests.peers.test_vllm import interpreter

SMALL = llama_spec("small", 2, (4, 2), 128, 256, 256, 1024, "made for this test")  # heads of 32
TRACE = requests((40, 20), (64, 31, 1), (7, 40, 3), (90, 5, 3), (33, 28, 9), (50, 50, 30))


def test_vllm_serves_our_trace_with_our_weights_and_gives_our_tokens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PAGELAB_VLLM_PYTHON", interpreter())
    export(LlamaModel(SMALL, 0, torch.float32, "cpu"), tmp_path / "model")
    TRACE.write(tmp_path / "trace.jsonl")
    options = [
        "--model", str(tmp_path / "model"), "--allocator", "paged", "--block-size", "32", "--pool-tokens",
        "1024", "--max-len", "256", "--with", "vllm", "--json", "--quiet",
    ]  # fmt: skip
    assert pagelab(["compare", str(tmp_path / "trace.jsonl"), *options]) == 0
    document = json.loads(capsys.readouterr().out)
    measured = next(run for run in document["runs"] if run["source"] == "measured")
    (vllm,) = document["peers"]
    assert (vllm["requests_with_equal_tokens"], vllm["requests"]) == (len(TRACE), len(TRACE))
    # In blocks of one size, with room for all, nothing is left to differ in but the clock.
    assert (vllm["block_size"], vllm["steps"]) == (32, measured["steps"])
    ledger = dict(vllm["ledger"])
    assert ledger.pop("pool") == measured["ledger"]["pool"] == 1024
    assert sum(ledger.values()) == pytest.approx(1024)
    assert all(0 < ledger[name] < 1024 for name in ("live", "internal", "free"))
    assert 0 < vllm["waste_percent"] < 60
    assert vllm["throughput"]["tokens_per_s"] > 0
    print(
        f"vLLM {vllm['version']}: {vllm['steps']} steps, {vllm['waste_percent']:.1f} % of held slots wasted"
    )
