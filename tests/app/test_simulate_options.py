"""`pagelab simulate`: every option works, and what does not go together is refused in one sentence."""

import json
from pathlib import Path
from typing import Any

import pytest

import sim.serve
from app.cli import run as pagelab
from sim import Config, Trace, simulate
from sim.fleet import Fleet, simulate_fleet
from sim.presets import PRESETS
from sim.stream import json_line

DEMO = ["simulate", "demo", "--pool-tokens", "4096", "--max-len", "512"]
CONFIG = Config(pool_tokens=4096, max_len=512)


def report(capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    assert pagelab([*DEMO, "--json", *options]) == 0
    return json.loads(capsys.readouterr().out)


def as_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


def test_events_are_streamed_byte_for_byte(tmp_path: Path):
    path = tmp_path / "events.jsonl"
    assert pagelab([*DEMO, "--quiet", "--events", str(path)]) == 0
    run = simulate(Trace.read("demo"), CONFIG)
    assert path.read_bytes() == b"".join(map(json_line, run.events))


def test_events_of_several_runs_go_to_several_files(tmp_path: Path):
    path = str(tmp_path / "events.jsonl")
    assert pagelab([*DEMO, "--quiet", "--events", path, "--allocator", "max", "--allocator", "paged"]) == 0
    assert sorted(file.name for file in tmp_path.iterdir()) == ["events.max.jsonl", "events.paged.jsonl"]


def test_events_can_go_to_standard_output_and_nothing_else_does(capfdbinary: pytest.CaptureFixture[bytes]):
    assert pagelab([*DEMO, "--first", "3", "--events", "-"]) == 0
    lines = capfdbinary.readouterr().out.splitlines()
    assert json.loads(lines[0])["kind"] == "arrive"
    assert json.loads(lines[-1])["kind"] == "free"


def test_the_report_does_not_depend_on_what_is_recorded(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    plain = report(capsys)
    assert plain == report(capsys, "--events", str(tmp_path / "e"), "--chrome-trace", str(tmp_path / "c"))


@pytest.mark.parametrize("router", ["round-robin", "least-tokens", "prefix-affinity"])
def test_replicas_on_the_command_line_and_in_python_are_the_same(
    capsys: pytest.CaptureFixture[str], router: str
):
    (run,) = report(capsys, "--replicas", "3", "--router", router, "--borrow")["runs"]
    fleet = simulate_fleet(Trace.read("demo"), CONFIG, Fleet(replicas=3, router=router, borrow=True))
    assert run == as_json(fleet.report())
    assert len(run["replicas"]) == 3
    assert {entry["replica"] for entry in run["per_request"]} == {0, 1, 2}


def test_a_fleet_has_a_row_for_each_replica_and_a_report_page(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    assert pagelab([*DEMO, "--replicas", "2", "--out", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "replica 0" in shown and "replica 1" in shown
    assert "paged, simulated, replica 1" in (tmp_path / "report.html").read_text()


def test_a_run_in_which_no_request_fits_still_has_its_report(tmp_path: Path, capsys):
    assert pagelab(["simulate", "four-requests", "--max-len", "1", "--out", str(tmp_path)]) == 0
    assert "0/5" in capsys.readouterr().out
    page = (tmp_path / "report.html").read_text()
    assert "No request could run" in page
    assert "r1 needs 256 tokens at worst, the maximum length is 1" in page


def test_as_many_replicas_as_may_be_keep_their_logs(tmp_path: Path, capsys):
    many = ["--replicas", "1024", "--json"]
    assert pagelab(["simulate", "four-requests", *many, "--chrome-trace", str(tmp_path / "c.json")]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert len(run["replicas"]) == 1024
    assert run["requests"]["finished"] == 5


def test_series_of_replicas_are_written_apart(tmp_path: Path):
    assert pagelab([*DEMO, "--quiet", "--replicas", "2", "--series", str(tmp_path / "s.csv")]) == 0
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "s.paged.replica0.csv",
        "s.paged.replica1.csv",
    ]


def test_tensor_parallel_on_the_command_line(capsys: pytest.CaptureFixture[str]):
    command = ["simulate", "demo", "--json", "--model", "llama-3-70b", "--memory", "80GiB"]
    assert pagelab([*command, "--tensor-parallel", "4", "--hardware", "h100"]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    expected = Config(model="llama-3-70b", memory="80GiB", tensor_parallel=4, hardware="h100")
    assert run["config"]["num_slots"] == expected.num_slots
    assert run["time_s"] == simulate(Trace.read("demo"), expected).time_s


def test_calc_tells_what_one_rank_holds(capsys: pytest.CaptureFixture[str]):
    command = ["calc", "--model", "llama-3-70b", "--tensor-parallel", "16", "--memory", "40GiB", "--json"]
    assert pagelab(command) == 0
    numbers = json.loads(capsys.readouterr().out)
    assert numbers["kv_bytes_per_token"] == 327_680
    assert numbers["kv_bytes_per_token_per_rank"] == 40_960
    assert (numbers["kv_heads_per_rank"], numbers["kv_head_copies"]) == (1, 2)
    assert numbers["max_slots"] == (40 * 2**30 - numbers["weights_bytes_per_rank"]) // 40_960


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            "--events - --json",
            "--events - with --json: both would be written to standard output; name a file",
        ),
        ("--events - --allocator max --allocator paged", "--events - with 2 runs (max, paged): give a file"),
        (
            "--router least-tokens",
            "--router least-tokens without --replicas: a single server needs no router",
        ),
        ("--borrow", "--borrow without --replicas: a single server has no neighbour"),
        (
            "--borrow --replicas 2 --allocator max",
            "--borrow with --allocator max: only blocks can lie anywhere",
        ),
        (
            "--borrow --replicas 2 --prefix-cache hash",
            "--borrow with --prefix-cache hash: a borrowed block goes",
        ),
        (
            "--placement best-fit",
            "--placement best-fit with --allocator paged: its blocks or pages may lie anywhere",
        ),
        (
            "--preempt swap --allocator max",
            "--preempt swap with --allocator max: only blocks go to host memory",
        ),
        (
            "--victim oldest --allocator oracle",
            "--victim oldest with --allocator oracle: max, pow2, oracle reserve in full",
        ),
        (
            "--prefix-cache hash --allocator pow2",
            "--prefix-cache hash with --allocator pow2: a prefix is shared block by block",
        ),
        ("--hardware h100 --timing unit", "--hardware h100 with --timing unit: only roofline asks"),
        ("--swap-blocks 4", "--swap-blocks without --preempt swap: recompute uses no host memory"),
        ("--pool-blocks 4", "--pool-tokens and --pool-blocks: each sets the size of the pool"),
        ("--tensor-parallel 3", "--tensor-parallel 3 with --model opt-13b: its 40 heads cannot be dealt out"),
    ],
)
def test_what_does_not_go_together_is_refused(
    options: str, sentence: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    assert pagelab([*DEMO, "--quiet", *options.split()]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"pagelab: {sentence}")
    assert captured.err.count("\n") == 1


def test_an_option_that_one_of_several_allocators_uses_is_welcome(capsys: pytest.CaptureFixture[str]):
    runs = report(capsys, "--allocator", "max", "--allocator", "paged", "--placement", "best-fit")["runs"]
    assert [run["allocator"] for run in runs] == ["max", "paged"]


def test_trace_hits_on_the_command_line(capsys: pytest.CaptureFixture[str]):
    command = ["trace", "hits", "shared-prefix", "--cache-blocks", "16,100", "--cache-blocks", "7"]
    assert pagelab([*command, "--policy", "fifo", "--policy", "optimal", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [(p["policy"], p["cache_blocks"]) for p in document["points"]] == [
        ("fifo", 16), ("fifo", 100), ("fifo", 7), ("optimal", 16), ("optimal", 100), ("optimal", 7),
    ]  # fmt: skip
    assert pagelab(["trace", "hits", "shared-prefix", "--cache-blocks", "100", "--json"]) == 0
    single = json.loads(capsys.readouterr().out)
    assert single["block_size"] == 16
    assert 0 < single["hit_rate"] == single["points"][0]["hit_rate"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("--cache-blocks 1x", "Invalid value for '--cache-blocks': 1x: must be whole numbers"),
        ("--cache-blocks 0", "cache blocks 0: must be at least 1"),
        ("--cache-blocks 1 --policy lur", "unknown policy 'lur': did you mean 'lru'?"),
        ("", "Missing option '--cache-blocks'"),
    ],
)
def test_wrong_trace_hits_are_refused(options: str, sentence: str, capsys: pytest.CaptureFixture[str]):
    assert pagelab(["trace", "hits", "demo", *options.split()]) == 2
    assert capsys.readouterr().err.startswith(f"pagelab: {sentence}")


def test_the_progress_bar_does_not_keep_a_run_from_leaping(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    leapt = []
    leap = sim.serve.leap
    monkeypatch.setattr(sim.serve, "leap", lambda *given: leapt.append(given[0].name) or leap(*given))
    assert pagelab([*DEMO, "--json"]) == 0
    whole = capsys.readouterr()
    assert leapt == ["demo"]
    assert "60/60" in whole.err
    assert pagelab([*DEMO, "--json", "--step-by-step"]) == 0
    assert leapt == ["demo"]
    assert capsys.readouterr().out == whole.out


def test_a_preset_is_the_options_that_it_stands_for(capsys):
    by_hand = [
        "--allocator", "paged", "--block-size", "16", "--chunked-prefill", "--max-batch-tokens", "2048",
        "--prefix-cache", "hash",
    ]  # fmt: skip
    assert report(capsys, "--preset", "vllm") == report(capsys, *by_hand)


def test_an_option_beside_a_preset_wins(capsys):
    [entry] = report(capsys, "--preset", "vllm", "--block-size", "4", "--max-batch-tokens", "512")["runs"]
    assert (entry["config"]["block_size"], entry["config"]["max_batch_tokens"]) == (4, 512)
    assert entry["config"]["chunked_prefill"] is True


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_serves_a_trace(capsys, name):
    [entry] = report(capsys, "--first", "9", "--preset", name)["runs"]
    for dial, value in PRESETS[name].items():
        assert entry["config"][dial] == value


def test_an_unknown_preset_is_refused_with_the_nearest_one(capsys):
    assert pagelab([*DEMO, "--preset", "vlm"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "preset 'vlm'" in line and "vllm" in line
