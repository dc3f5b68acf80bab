"""The teacher's kit: sheets by seed, and a class's results in one table."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from app.classroom import collect
from app.cli import cli, run
from app.payload import replay_payload
from app.quiz import NUM_BLOCKS, questions, sheet, small_run
from app.recorded import recording_of
from sim import Config, Trace, simulate
from sim.events import Kind
from tests.making import requests


def told(*arguments: str) -> str:
    result = CliRunner().invoke(cli, list(arguments))
    assert result.exit_code == 0, result.output
    return result.output


def test_a_seed_names_a_sheet():
    assert told("quiz", "--seed", "7") == told("quiz", "--seed", "7")
    assert told("quiz", "--seed", "7") != told("quiz", "--seed", "8")


def test_the_sheet_without_answers_is_the_same_but_for_them():
    plain, solved = (
        told("quiz", "--seed", "7").splitlines(),
        told("quiz", "--seed", "7", "--answers").splitlines(),
    )
    assert [line for line in solved if not line.startswith("   ")] == plain
    assert sum(line.startswith("   ") for line in solved) == 6


@pytest.mark.parametrize("seed", range(12))
def test_every_kind_of_question_comes_up_and_every_answer_is_what_the_run_did(seed: int):
    from random import Random

    trial = recording_of(small_run(Random(seed)))
    asked = list(questions(trial))
    assert {"alloc", "admit", "free", "waste", "where"} <= {question.kind for question in asked}
    victims = [event.request for event in trial.events if event.kind is Kind.PREEMPT]
    assert [question.answer for question in asked if question.kind == "preempt"] == victims
    for question in asked:
        kind = question.kind
        if kind in ("alloc", "free"):
            assert 0 <= int(question.answer) <= NUM_BLOCKS
        if kind == "alloc":
            assert f"{question.answer} left free" in question.why
    assert [question.kind for question in sheet(seed)].count("where") == 1


@pytest.mark.parametrize("seed", [0, 7, 23])
def test_the_page_asks_what_the_sheet_prints(seed: int, tmp_path: Path):
    told("quiz", "--seed", str(seed), "--html", str(tmp_path / "quiz.html"))
    found = re.search(r"^const replay = (.*);$", (tmp_path / "quiz.html").read_text(), re.MULTILINE)
    assert found
    quiz = json.loads(found[1])["quiz"]
    assert quiz["seed"] == seed
    sheet_rows = json.loads(told("quiz", "--seed", str(seed), "--json", "--answers"))["questions"]
    asked = [
        {
            "step": one["step"],
            "text": f"{one['situation']} {one['ask']}",
            "answer": one["answer"],
            "why": one["why"],
        }
        for one in quiz["questions"]
    ]
    assert asked == sheet_rows


@pytest.mark.parametrize(
    ("victim", "rule"),
    [
        ("youngest", "The server preempts the youngest. Who"),
        ("oldest", "The server preempts the oldest. Who"),
        ("fewest-tokens", "The server preempts the one that has the fewest stored tokens of the running"),
    ],
)
def test_who_asks_for_the_victim_says_by_which_rule_it_is_chosen(victim: str, rule: str):
    config = Config(block_size=4, pool_blocks=6, max_len=12, timing="unit", victim=victim)
    run = recording_of(simulate(requests((8, 4), (8, 4), (8, 4)), config))
    asked = [question.ask for question in questions(run) if question.kind == "preempt"]
    assert asked and all(rule in ask for ask in asked)


def test_the_page_is_named_as_a_file_and_its_first_question_as_an_address(tmp_path: Path):
    """Story: `quiz.html#step=0&predict` is no file that a file manager opens."""
    page = tmp_path / "my quiz.html"
    lines = told("quiz", "--html", str(page)).splitlines()
    assert lines[0] == f"quiz: {page}"
    assert lines[1].endswith(f" {page.as_uri()}#step=0&predict")


def test_questions_about_any_run_are_drawn_by_their_seed():
    runs = [
        simulate(Trace.read("demo"), Config(allocator=name, pool_tokens=2048, max_len=512))
        for name in ("max", "paged")
    ]
    one, same, other = (replay_payload(runs, seed=seed)["quiz"]["questions"] for seed in (7, 7, 8))
    assert one == same != other
    assert {question["side"] for question in one} == {0, 1}


def test_json_keeps_the_answers_back():
    assert set(json.loads(told("quiz", "--json"))["questions"][0]) == {"step", "text"}
    assert set(json.loads(told("quiz", "--json", "--answers"))["questions"][0]) == {
        "step",
        "text",
        "answer",
        "why",
    }


def comparison(waste: float) -> str:
    runs = [
        {"allocator": "paged", "source": source, "waste_percent": waste}
        for source in ("simulated", "measured")
    ]
    agreed = [{"allocator": "paged", "steps_compared": 9, "block_tables_identical": True}]
    return json.dumps({"runs": runs, "agreement": agreed})


def test_a_class_is_collected_by_file_and_by_folder(tmp_path: Path):
    (tmp_path / "ada.json").write_text(comparison(7.25))
    (tmp_path / "grace").mkdir()
    (tmp_path / "grace" / "report.json").write_text(comparison(8.5))
    (tmp_path / "notes.json").write_text("{}")
    results, skipped = collect(tmp_path)
    assert [(result.student, result.measured) for result in results] == [("ada", 7.25), ("grace", 8.5)]
    assert len(skipped) == 1
    assert "notes.json: is not what `pagelab compare --json` writes (no runs)" in skipped[0]
    output = told("class", "collect", str(tmp_path), "--out", str(tmp_path / "out"))
    assert "2 students, 2 runs, 2 of them identical" in output
    (tmp_path / "ada.json").unlink()
    assert "1 student, 1 run, 1 of them identical" in told("class", "collect", str(tmp_path))
    rows = (tmp_path / "out" / "class.csv").read_text().splitlines()
    assert rows[1] == "ada,paged,7.25,7.25,9,true"
    assert "<svg" in (tmp_path / "out" / "class.svg").read_text()


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"runs": 3, "agreement": []}', '{"runs": [], "agreement": []}']
)
def test_a_folder_without_results_is_refused(tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "x.json").write_text(text)
    assert run(["class", "collect", str(tmp_path)]) == 2
    assert "no result of `pagelab compare` in it" in capsys.readouterr().err


def test_the_real_thing_can_be_collected(tmp_path: Path):
    command = "compare demo --first 6 --allocator paged --pool-tokens 4096 --max-len 512 --quiet --out"
    told(*command.split(), str(tmp_path / "ada"))
    results, _ = collect(tmp_path)
    assert [(result.student, result.is_identical) for result in results] == [("ada", True)]
    assert results[0].simulated == results[0].measured


def test_the_course_is_listed_and_a_lesson_that_is_not_there_is_refused():
    listed = told("lessons")
    assert "Paging: the allocator and the block table" in listed
    assert run(["lessons", "--open", "99"]) == 2
    assert run(["lessons", "--teacher"]) == 2
