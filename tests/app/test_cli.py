"""The command line as a person or a script meets it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from app.cli import COMMANDS, run
from sim import __version__

SMALL = ["--pool-tokens", "4096", "--max-len", "512", "--timing", "unit", "--quiet"]


def pagelab(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of one command line."""
    capsys.readouterr()
    code = run(list(arguments))
    out, err = capsys.readouterr()
    return code, out, err


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line with which the command line refuses."""
    code, out, err = pagelab(capsys, *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("pagelab: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    return err


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(capsys, command):
    code, out, _ = pagelab(capsys, command, "--help")
    assert code == 0
    assert "Usage: pagelab" in out


def test_the_version_is_the_packages(capsys):
    assert pagelab(capsys, "--version")[1].strip().endswith(__version__)


def test_a_wrong_command_is_answered_with_the_nearest_one(capsys):
    assert "did you mean 'simulate'" in refused(capsys, "simulat", "demo")


def test_a_wrong_option_is_answered_with_the_nearest_one(capsys):
    assert "--block-size" in refused(capsys, "simulate", "demo", "--blok-size", "16")


def test_json_is_one_document_and_nothing_else(capsys):
    code, out, err = pagelab(capsys, "simulate", "demo", *SMALL, "--json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert document["trace"]["requests"] == 60
    assert [entry["allocator"] for entry in document["runs"]] == ["paged"]
    assert document["runs"][0]["requests"] == {"arrived": 60, "finished": 60, "rejected": 0, "unfinished": 0}


def test_the_same_seed_gives_the_same_bytes(capsys, tmp_path):
    logs = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    reports = [pagelab(capsys, "simulate", "demo", *SMALL, "--json", "--events", str(log))[1] for log in logs]
    assert reports[0] == reports[1]
    assert logs[0].read_bytes() == logs[1].read_bytes() != b""


def test_each_allocator_gets_its_own_files(capsys, tmp_path):
    allocators = ["--allocator", "max", "--allocator", "paged"]
    files = ["--events", str(tmp_path / "e.jsonl"), "--series", str(tmp_path / "s.csv")]
    assert pagelab(capsys, "simulate", "demo", *SMALL, *allocators, *files)[0] == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "e.max.jsonl",
        "e.paged.jsonl",
        "s.max.csv",
        "s.paged.csv",
    ]


def test_series_has_one_row_a_step_that_adds_up(capsys, tmp_path):
    path = tmp_path / "series.csv"
    out = pagelab(capsys, "simulate", "demo", *SMALL, "--json", "--series", str(path))[1]
    header, *rows = path.read_text().splitlines()
    assert header == (
        "step,time,pool,live,reserved,internal,rounding,cached,external,free,running,waiting,swapped"
    )
    assert len(rows) == json.loads(out)["runs"][0]["steps"]
    for row in rows:
        pool, *classes = map(int, row.split(",")[2:10])
        assert sum(classes) == pool == 4096


def test_events_are_json_lines_that_say_why(capsys, tmp_path):
    path = tmp_path / "events.jsonl"
    pagelab(capsys, "simulate", "four-requests", "--events", str(path), "--quiet", "--max-len", "4096")
    events = [json.loads(line) for line in path.read_text().splitlines()]
    assert {"kind", "step", "time", "request", "why"} <= set(events[0])
    assert [e["kind"] for e in events].count("finish") == 5
    assert all(event["why"] for event in events)


def test_a_trace_may_come_on_standard_input():
    line = '{"id": "a", "arrival": 0, "prompt": 8, "output": 4}\n'
    command = [sys.executable, "-m", "app", "simulate", "-", "--timing", "unit", "--json"]
    done = subprocess.run(command, input=line, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["runs"][0]["per_request"][0]["finish"] == 4.0


def test_a_closed_pipe_is_no_error():
    command = f"{sys.executable} -m app simulate demo --json --quiet | head -c 20"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, check=False
    )
    assert done.stderr == ""


def test_a_place_that_cannot_be_written_is_one_line(capsys, tmp_path):
    blocker = tmp_path / "file"
    blocker.write_text("in the way")
    line = refused(capsys, "simulate", "demo", *SMALL, "--out", str(blocker / "report"))
    assert "cannot write" in line
    assert "choose another place" in line


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["simulate", "no-such-file.csv"], ["no-such-file.csv"]),
        (["simulate", "dem"], ["demo"]),
        (["simulate"], ["TRACE"]),
        (["simulate", "demo", "--allocator", "pagd"], ["did you mean 'paged'"]),
        (["simulate", "demo", "--model", "opt-13"], ["did you mean 'opt-13b'"]),
        (["simulate", "demo", "--hardware", "a100-40"], ["did you mean 'a100-40gb'"]),
        (["simulate", "demo", "--placement", "buddi", "--allocator", "max"], ["did you mean 'buddy'"]),
        (["simulate", "demo", "--block-size", "0"], ["block size 0", "at least 1"]),
        (["simulate", "demo", "--block-size", "x"], ["--block-size", "'x'"]),
        (["simulate", "demo", "--pool-tokens", "8"], ["smaller than one block of 16"]),
        (["simulate", "demo", "--pool-tokens", "8", "--pool-blocks", "8"], ["--pool-tokens and"]),
        (["simulate", "demo", "--memory", "12GiB"], ["weights"]),
        (["simulate", "demo", "--memory", "lots"], ["lots"]),
        (["simulate", "demo", "--watermark", "1"], ["watermark 1.0"]),
        (["simulate", "demo", "--first", "0"], ["first 0"]),
        (["simulate", "demo", "--rate-scale", "0"], ["rate scale 0"]),
        (["simulate", "demo", "--step-rule", "prefill-first", "--chunked-prefill"], ["--chunked-prefill"]),
        (["simulate", "demo", "--swap-blocks", "4"], ["--preempt swap"]),
        (["calc", "--model", "gpt-5"], ["unknown model"]),
        (["measure", "demo", "--model", "opt-13b"], ["opt-13b", "tiny"]),
        (["measure", "demo", "--device", "tpu"], ["tpu"]),
        (["measure", "demo", "--backend", "cuda"], ["cuda"]),
        (["measure", "demo", "--clock", "sundial"], ["sundial"]),
        (["app", "--port", "70000"], ["70000"]),
    ],
    ids=lambda value: " ".join(value[:4]) if isinstance(value, list) else None,
)  # fmt: skip
def test_bad_usage_is_refused_with_what_where_and_remedy(capsys, arguments, said):
    line = refused(capsys, *arguments)
    for part in said:
        assert part in line


def test_calc_gives_the_papers_numbers(capsys):
    numbers = json.loads(pagelab(capsys, "calc", "--model", "opt-13b", "--memory", "40GiB", "--json")[1])
    assert numbers["kv_bytes_per_token"] == 819_200
    assert numbers["kv_bytes_per_block"] == 16 * 819_200
    assert numbers["max_slots"] == (40 * 2**30 - numbers["weights_bytes"]) // 819_200


def test_calc_writes_the_formula_out(capsys):
    out = pagelab(capsys, "calc", "--model", "llama-3-8b")[1]
    assert "2 x 32 layers x 8 kv heads x 128 dims x 2 B = 131,072 B" in out


def test_convert_loses_nothing(capsys, tmp_path):
    path = tmp_path / "copy.jsonl"
    assert pagelab(capsys, "trace", "convert", "shared-prefix", str(path))[0] == 0
    infos = [
        json.loads(pagelab(capsys, "trace", "info", name, "--json")[1])
        for name in ("shared-prefix", str(path))
    ]
    for info in infos:
        del info["name"], info["notes"]
    assert infos[0] == infos[1]


def test_the_built_in_traces_are_listed(capsys):
    assert "demo" in json.loads(pagelab(capsys, "trace", "list", "--json")[1])


def test_help_needs_no_torch():
    """A newcomer's first command must not wait for torch to load."""
    code = (
        "import sys; from app.cli import run; run(['simulate', '--help']); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


def test_python_m_app_is_the_same_entry_point():
    done = subprocess.run(
        [sys.executable, "-m", "app", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip().endswith(__version__)


def test_a_real_trace_is_simulated(capsys, shared_data: Path):
    path = shared_data / "AzureLLMInferenceTrace_conv.csv.gz"
    out = pagelab(capsys, "simulate", str(path), "--first", "50", "--max-len", "8192", "--json", "--quiet")[1]
    document = json.loads(out)
    assert document["trace"]["requests"] == 50
    assert document["runs"][0]["requests"]["finished"] == 50
