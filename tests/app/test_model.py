"""`pagelab model`: lists, describes, refuses."""

from pathlib import Path

import orjson
import pytest

from app.cli import run
from tests.engine.checkpoint.making import reference


@pytest.fixture(autouse=True)
def _empty_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGELAB_HOME", str(tmp_path / "home"))


def test_the_list_says_which_models_have_weights(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["model", "list", "--json"]) == 0
    weights = {row["model"]: row["weights"] for row in orjson.loads(capsys.readouterr().out)["models"]}
    assert weights["tiny"] == "random"
    assert weights["smollm2-135m"] == "pagelab model get smollm2-135m"


def test_a_folder_is_described_and_known_to_calc(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reference().save_pretrained(tmp_path)
    assert run(["model", "info", str(tmp_path), "--json"]) == 0
    row = orjson.loads(capsys.readouterr().out)
    assert (row["num_layers"], row["weights"]) == (2, str(tmp_path))
    assert run(["calc", "--model", str(tmp_path), "--kv-dtype", "fp32", "--json"]) == 0
    assert orjson.loads(capsys.readouterr().out)["kv_bytes_per_token"] == 2 * 2 * 2 * 32 * 4


def test_a_folder_simulates_and_really_runs_alike(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reference().save_pretrained(tmp_path)
    dials = ["--model", str(tmp_path), "--pool-tokens", "512", "--max-len", "128", "--allocator", "paged"]
    assert run(["compare", "demo", *dials, "--max-total", "100", "--first", "6", "--json", "--quiet"]) == 0
    (agreement,) = orjson.loads(capsys.readouterr().out)["agreement"]
    assert agreement["block_tables_identical"]
    assert agreement["steps_compared"] > 10


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["model", "get", "smolm2"], "did you mean 'smollm2'"),
        (["model", "info", "./nothing.gguf"], "no such file"),
        (["calc", "--model", "./nothing"], "no such file"),
        (["calc", "--model", "llama-2-7"], "did you mean"),
    ],
)
def test_a_wrong_name_is_one_clear_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
