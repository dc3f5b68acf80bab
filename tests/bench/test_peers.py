"""Peers side by side: what is printed is parsed, what fails is skipped with a reason, ratios are right."""

import json
import re
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from bench.peers.__main__ import LIMITS, document, sentence
from bench.peers.compare import finish, ratios, reference_tokens, summary
from bench.peers.systems import ONE_BY_ONE, SYSTEMS, System, parse_result, python_of, run_system
from bench.peers.work import Work, write_first

ROOT = Path(__file__).parents[2]
WORK = Work(prompts=[[1, 2], [3], [4]], outputs=[2, 1, 3])
ANSWERS = [[5, 6], [7], [8, 9, 1]]
MIB = 2**20


def result(seconds: float, tokens: list[list[int]], peak_mib: int, **more: Any) -> dict[str, Any]:
    return {
        "tokens": [list(said) for said in tokens],
        "seconds": seconds,
        "peak_resident_bytes": peak_mib * MIB,
        **more,
    }


def results() -> dict[str, dict[str, Any]]:
    kv = {"kv_reserved_bytes": 100 * MIB, "kv_peak_bytes": 25 * MIB}
    return {
        "pagelab": result(2.0, ANSWERS, 1000, waste_percent=6.0, **kv),
        ONE_BY_ONE: result(3.0, ANSWERS[:1], 800, waste_percent=0.0),
        "transformers-continuous": result(4.0, ANSWERS, 1200),
        "llama.cpp-batched": result(5.0, [*ANSWERS[:2], [8, 9, 2]], 900),
        "vllm": {"skipped": "vllm cannot be imported in its environment"},
    }


def stand_in(tmp_path: Path, body: str) -> System:
    script = tmp_path / "system.py"
    script.write_text(body, encoding="utf-8")
    return System("json", [str(script), "batched"])


def run(system: System, tmp_path: Path, python: str = sys.executable, limit_s: int = 60) -> dict[str, Any]:
    return run_system(system, python, tmp_path / "work.json", threads=3, limit_s=limit_s)


def test_a_system_gets_the_work_file_its_threads_and_its_last_line_is_its_result(tmp_path: Path) -> None:
    body = (
        "import json, os, sys\n"
        "print('loading weights'); print('{}')\n"
        "how, path = sys.argv[1:]\n"
        "said = [how, path, os.environ['OMP_NUM_THREADS']]\n"
        "print(json.dumps({'tokens': said, 'seconds': 1}))\n"
        "print('engine shut down')\n"
    )
    found = run(stand_in(tmp_path, body), tmp_path)
    assert found["tokens"] == ["batched", str(tmp_path / "work.json"), "3"]
    assert found["load_before"] >= 0


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("import sys; sys.exit('no such model')", "failed: no such model"),
        ("import os; os._exit(9)", "failed: exit code 9"),
        ("raise ValueError('block size 7')", "failed: ValueError: block size 7"),
        ("import time; time.sleep(60)", "took more than 1 s"),
        ("print('[]'); print('fine')", "printed no result"),
    ],
)
def test_a_system_that_gives_no_result_is_skipped_with_the_reason(
    tmp_path: Path, body: str, reason: str
) -> None:
    limit_s = 1 if "sleep" in body else 60
    assert run(stand_in(tmp_path, body), tmp_path, limit_s=limit_s)["skipped"] == reason


@pytest.mark.parametrize("python", [sys.executable, "/no/such/python"])
def test_a_system_that_is_not_installed_is_skipped(tmp_path: Path, python: str) -> None:
    found = run(System("a_module_that_is_nowhere", ["x.py"]), tmp_path, python)
    assert found == {"skipped": "a_module_that_is_nowhere cannot be imported in its environment"}


def test_text_that_looks_like_a_result_is_none() -> None:
    assert "skipped" in parse_result("{'tokens': []}\n[1]\n{\"seconds\": 3}\n")
    assert parse_result('{"tokens": [[1]]}\n{"tokens": broken')["tokens"] == [[1]]


def test_each_environment_is_asked_for_its_own_system() -> None:
    own = {"transformers": "hf", "vllm": None}
    assert python_of(SYSTEMS[ONE_BY_ONE], own) == "hf"
    assert python_of(SYSTEMS["vllm"], own) == python_of(SYSTEMS["pagelab"], own) == sys.executable
    assert all(Path(one.script[0]).is_file() or one.script[0] == "-m" for one in SYSTEMS.values())


def test_rates_count_the_requests_that_a_system_got() -> None:
    finished = finish(results(), WORK)
    assert finished["pagelab"]["tokens_per_s"] == 6 / 2.0
    assert finished[ONE_BY_ONE]["tokens_per_s"] == 2 / 3.0
    assert finished[ONE_BY_ONE]["requests"] == 1
    assert finished["pagelab"]["times_one_by_one"] == pytest.approx(3.0 / (2 / 3))
    assert "tokens" not in finished["pagelab"]


def test_tokens_are_compared_with_transformers_one_by_one_and_past_those_in_batches() -> None:
    given = results()
    given["transformers-continuous"]["tokens"][0] = [0, 0]  # one by one says otherwise, and counts
    assert reference_tokens(given) == ANSWERS
    finished = finish(given, WORK)
    equal = {name: one.get("requests_with_equal_tokens") for name, one in finished.items()}
    assert equal == {
        "pagelab": 3, ONE_BY_ONE: 1, "transformers-continuous": 2, "llama.cpp-batched": 2, "vllm": None
    }  # fmt: skip
    assert finished["llama.cpp-batched"]["requests_compared"] == 3


def test_ratios_are_ours_over_theirs_and_leave_out_who_was_skipped() -> None:
    found = ratios(finish(results(), WORK))
    assert set(found) == {ONE_BY_ONE, "transformers-continuous", "llama.cpp-batched"}
    assert found["llama.cpp-batched"] == pytest.approx({"throughput": 2.5, "peak_resident": 1000 / 900})
    assert ratios(finish({"vllm": result(1, ANSWERS, 1)}, WORK)) == {}


def test_reserved_memory_that_was_never_used_is_a_share_of_what_was_reserved() -> None:
    finished = finish(results(), WORK)
    assert finished["pagelab"]["kv_never_used_percent"] == 75.0
    assert "kv_never_used_percent" not in finished["transformers-continuous"]


def test_the_summary_has_a_line_for_each_system_and_a_dash_for_what_it_does_not_tell() -> None:
    head, *lines = summary(finish(results(), WORK)).splitlines()
    cells = {line.split()[0]: re.split(r" {3,}", line)[1:] for line in lines}
    assert len(set(map(len, (head, *lines[:-1])))) == 1, "columns"
    assert cells["pagelab"] == ["3.0", "4.50", "1000", "100", "25", "6.0 %", "3 of 3"]
    assert cells["vllm"] == ["skipped: vllm cannot be imported in its environment"]
    assert cells["transformers-continuous"][3:6] == ["-", "-", "-"]


def test_the_readme_shows_the_results_that_are_kept() -> None:
    kept = json.loads((ROOT / "bench/results/peers.json").read_text(encoding="utf-8"))
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(r"<!-- peers: begin -->\n```\n(.*?)\n```\n<!-- peers: end -->", text, re.DOTALL)
    assert found
    assert found[1] == summary(kept["systems"])
    ours, theirs = kept["systems"]["pagelab"], kept["systems"]["vllm"]
    assert "Ours is ahead of all others there, and of vLLM in less than half of its memory." in text
    assert ("The processor has AVX-512" in text) == (kept["machine"]["vectors"] == "avx512f")
    others = [one for name, one in kept["systems"].items() if name != "pagelab"]
    assert len(others) == 6
    assert all(ours["tokens_per_s"] > one["tokens_per_s"] for one in others)
    assert ours["peak_resident_bytes"] < theirs["peak_resident_bytes"] / 2


def test_the_document_is_json_and_says_what_was_compared() -> None:
    options = Namespace(requests=3, seed=4, model="tiny", threads=2, whole=True)
    content = json.loads(json.dumps(document(finish(results(), WORK), WORK, options, dict(LIMITS))))
    assert content["command"] == "python -m bench.peers --requests 3 --seed 4 --whole"
    assert content["work"] == {"model": "tiny", "requests": 3, "prompt_tokens": 4, "output_tokens": 6}
    assert content["pagelab_over"]["transformers-continuous"]["throughput"] == 2.0
    assert content["systems"]["vllm"]["skipped"]


def test_a_sentence_says_rate_and_memory_or_why_not() -> None:
    assert sentence("x", results()["pagelab"]).split() == ["x", "2.0", "s", "3.0", "tokens/s", "1000", "MiB", "at", "most"]  # fmt: skip  # noqa: E501
    assert sentence("vllm", results()["vllm"]).endswith("skipped: vllm cannot be imported in its environment")


def test_slow_systems_get_the_first_requests_only(tmp_path: Path) -> None:
    file = tmp_path / "work.json"
    content = {"prompts": WORK.prompts, "outputs": WORK.outputs, "threads": 2}
    file.write_text(json.dumps(content), encoding="utf-8")
    first = json.loads(write_first(file, 2).read_text(encoding="utf-8"))
    assert first == {"prompts": [[1, 2], [3]], "outputs": [2, 1], "threads": 2}
    assert write_first(file, None) == file
    assert json.loads(file.read_text(encoding="utf-8")) == content
