"""`pagelab generate` on a tiny model with a tokenizer of a few letters."""

from pathlib import Path
from typing import Any

import orjson
import pytest
import torch

from app.cli import run
from engine.physical import Pool
from engine.setup import make_pool
from sim import Config
from tests.engine.checkpoint.making import reference, write_gguf


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("model") / "tiny.gguf"
    template = "<|begin|>{% for m in messages %}{{ m.content }} {% endfor %}"
    write_gguf(dict(reference().state_dict()), path, tokenizer__chat_template=template)
    return str(path)


def answered(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert run(["generate", *arguments, "--json"]) == 0
    return orjson.loads(capsys.readouterr().out)


def test_answers_come_as_text_and_as_json(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    document = answered(capsys, "the cat", "a dog", "--model", model, "--max-tokens", "6")
    first, second = document["answers"]
    assert (first["prompt"], second["prompt"]) == ("the cat", "a dog")
    assert first["prompt_tokens"] == 1 + len(["the", "Ġ", "c", "a", "t", "Ġ"])
    assert first["said"][0]["end"] in ("max-tokens", "end-token")
    assert document["run"]["output_tokens"] >= len(first["said"][0]["tokens"])
    assert run(["generate", "the cat", "a dog", "--model", model, "--max-tokens", "6", "--quiet"]) == 0
    assert first["said"][0]["text"].strip() in capsys.readouterr().out


def test_every_allocator_says_the_same(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = [
        answered(capsys, "the cat", "two", "--model", model, "--max-tokens", "9", "--allocator", name)[
            "answers"
        ]
        for name in ("paged", "max", "grow")
    ]
    assert said[0] == said[1] == said[2]


def test_prompts_come_from_a_file_too(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "prompts.txt"
    file.write_text("the cat\n\na dog\n", encoding="utf-8")
    document = answered(capsys, "first", "--prompts", str(file), "--model", model, "--max-tokens", "2")
    assert [answer["prompt"] for answer in document["answers"]] == ["first", "the cat", "a dog"]


def test_a_plain_prompt_leaves_the_template_out_and_a_system_message_goes_in(
    model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    counts = [
        answered(capsys, "the", "--model", model, "--max-tokens", "1", *more)["answers"][0]["prompt_tokens"]
        for more in (["--plain"], [], ["--system", "the"])
    ]
    assert counts == [1, 3, 4]  # the | begin the Ġ | begin the Ġthe Ġ


def test_samples_and_beams_are_all_shown(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    drawn = answered(capsys, "the", "--model", model, "--n", "3", "--temperature", "1", "--max-tokens", "5")
    beams = answered(capsys, "the", "--model", model, "--beam", "2", "--max-tokens", "5")
    assert len(drawn["answers"][0]["said"]) == 3
    scores = [said["score"] for said in beams["answers"][0]["said"]]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no prompt: give one"),
        (["hi", "--model", "tiny"], "only its shape is known"),
        (["hi", "--temperature", "-1"], "temperature -1.0"),
        (["hi", "--max-tokens", "0"], "max tokens 0"),
        (["hi", "--plain", "--system", "x", "--model", "MODEL"], "--system with --plain"),
        (["--prompts", "/no/such/file"], "cannot be read"),
        (["hi", "--allocator", "oracle", "--model", "MODEL"], "which nobody knows"),
        (["hi", "--max-len", "4096", "--model", "MODEL"], "has 128 positions"),
    ],
)
def test_what_cannot_be_is_one_clear_line(
    arguments: list[str], message: str, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["generate", *(model if one == "MODEL" else one for one in arguments)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("more", [[], ["--speculate", "3"], ["--beam", "3"], ["--kv-dtype", "int8"]], ids=str)
def test_check_holds_memory_against_the_log_at_every_step(
    more: list[str], model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["the cat the cat", "two", "--model", model, "--max-tokens", "9", "--check", *more]
    run_of = answered(capsys, *arguments)["run"]
    assert run_of["agreement"]["steps_compared"] == run_of["steps"] > 0
    assert run_of["agreement"]["first_difference"] is None
    assert run(["generate", *arguments]) == 0
    assert f"memory was as the log says in all {run_of['steps']} steps\n" in capsys.readouterr().err


def test_check_says_where_memory_is_not_as_the_log_says(
    model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def dirty(config: Config, device: torch.device, *, is_marked: bool) -> Pool:
        assert is_marked
        pool = make_pool(config, device)
        pool.storage[-1] = 0
        return pool

    monkeypatch.setattr("app.commands.generate.make_pool", dirty)
    assert run(["generate", "the cat", "--model", model, "--max-tokens", "3", "--check", "--quiet"]) == 1
    assert capsys.readouterr().err.startswith("pagelab: step 1: slot ")


def test_no_answer_at_all_is_an_error_with_what_helps(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--model", model, "--max-tokens", "5000", "--max-len", "64"]
    assert run(["generate", "the cat", "two", *given]) == 2
    said = capsys.readouterr().err
    assert said.startswith("pagelab: no prompt can be answered: p0 needs 50")
    assert said.endswith("the maximum length is 64; raise --max-len\n")


def test_help_says_the_defaults_that_are_used(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["generate", "--help"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "(default smollm2-135m)" in said
    assert "fp8 | int8) (default fp32)" in said
