"""`pagelab bench calibrate` writes what `--timing` takes; `compare` says how well it foretells."""

import json
import signal

import pytest

from app.cli import run
from engine.calibrate import calibrate
from engine.experiments import design

POOL = ["--pool-tokens", "1024", "--max-len", "128", "--max-seqs", "8", "--device", "cpu"]


@pytest.fixture(scope="module")
def timing(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("calibration") / "timing.json"
    few = ["--repeats", "1", "--most-tokens", "64", "--quiet"]
    assert run(["bench", "calibrate", *POOL, *few, "--out", str(path)]) == 0
    return str(path)


def test_a_calibration_says_what_it_measured_and_how_far_it_is_off(timing):
    with open(timing, encoding="utf-8") as file:
        document = json.load(file)
    assert document["seconds"]["step"] > 0
    assert document["config"]["model"] == "tiny"
    assert document["engine"]["device"] == "cpu"
    error = document["cross_validation"]
    assert error["num_steps"] == len(document["steps"]) > 50
    assert error["median_percent"] > 0


@pytest.mark.parametrize(("experiments", "is_written"), [(3, False), (1000, True)])
def test_a_ctrl_c_keeps_whole_rounds(capsys, tmp_path, monkeypatch, experiments, is_written):
    """It is pressed in the first round, or somewhere in the second."""

    def pressed(config, *, on_experiment, **options):
        per_round = len(design(config, options["most_tokens"]))

        def tell(number: int) -> None:
            if number == min(experiments, per_round + 2):
                signal.raise_signal(signal.SIGINT)

        return calibrate(config, on_experiment=tell, **options)

    monkeypatch.setattr("app.commands.bench.calibrate", pressed)
    path = tmp_path / "timing.json"
    few = ["--repeats", "3", "--most-tokens", "64", "--quiet"]
    assert run(["bench", "calibrate", *POOL, *few, "--out", str(path)]) == 130
    line = capsys.readouterr().err.splitlines()[-1]
    if is_written:
        assert json.loads(path.read_bytes())["repeats"] == 1
        assert line == "pagelab: interrupted: the file holds the whole rounds (1) up to there"
    else:
        assert not list(tmp_path.iterdir())
        assert line == "pagelab: interrupted"


def test_compare_holds_the_simulation_against_a_run_on_the_clock(capsys, timing):
    capsys.readouterr()
    arguments = ["compare", "demo", "--first", "4", "--allocator", "paged", "--max-len", "512"]
    code = run([*arguments, "--pool-tokens", "2048", "--timing", timing, "--json", "--quiet"])
    document = json.loads(capsys.readouterr().out)
    assert code == 0
    [entry] = document["forecast"]
    assert entry["allocator"] == "paged"
    assert list(entry["figures"]) == [
        "throughput", "ttft p50", "ttft p95", "tpot p50", "tpot p95", "e2e p50", "e2e p95",
    ]  # fmt: skip
    assert entry["steps"]["simulated"] == entry["steps"]["error"]["num_steps"] > 0
    assert document["agreement"][0]["time_error_percent"] is not None


def test_compare_prints_the_forecast_as_a_table(capsys, timing):
    arguments = ["compare", "demo", "--first", "3", "--allocator", "paged", "--max-len", "512"]
    assert run([*arguments, "--pool-tokens", "2048", "--timing", timing]) == 0
    printed = capsys.readouterr().out
    assert "paged: foretold by the timing file, against the clock" in printed
    assert "error = (1 + of the steps) x (1 + of the queue) - 1" in printed


def test_a_file_measured_with_another_model_is_refused(capsys, timing):
    assert run(["simulate", "demo", "--model", "llama-2-7b", "--timing", timing]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "measured with --model tiny, and this run has llama-2-7b; use that, or calibrate again" in line


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--pool-tokens", "64"], "use a larger pool"),
        (["--repeats", "0"], "0 is not in the range"),
        (["--out", f"{__file__}/timing.json"], "test_bench.py"),
        (["--model", "opt-13b"], "the engine runs the Llama architecture"),
    ],
)
def test_what_cannot_be_calibrated_is_refused_in_one_line(capsys, tmp_path, arguments, says):
    defaults = ["--out", str(tmp_path / "t.json"), "--repeats", "1", "--most-tokens", "64", "--quiet"]
    assert run(["bench", "calibrate", *POOL, *defaults, *arguments]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert says in line
