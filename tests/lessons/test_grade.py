"""`pytest -p lessons.grade DIR` gives each check of each notebook a test, and counts points."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import nbformat
import pytest

from lessons.source import lesson_paths, make_notebook

LESSON = lesson_paths()[1]
FIRST, SECOND = "contiguous.length_of_range(range_length)", "contiguous.waste_of_one(ledger_of_one)"
Notebook = nbformat.NotebookNode


def solution_of(notebook: Notebook, name: str) -> Notebook:
    return next(
        cell
        for cell in notebook.cells
        if f"def {name}" in cell.source and "stub" in cell.metadata.get("tags", [])
    )


def one_wrong(notebook: Notebook) -> None:
    cell = solution_of(notebook, "ledger_of_one")
    cell.source = cell.source.replace("prompt + emitted - 1", "prompt + emitted")


def checks_of_his_own(notebook: Notebook) -> None:
    """Both answers are wrong; the first check is emptied, and the second is gone."""
    one_wrong(notebook)
    cell = solution_of(notebook, "range_length")
    cell.source = cell.source.replace("return max_len", "return 0")
    first, second = (cell for cell in notebook.cells if "check" in cell.metadata.get("tags", []))
    first.source = "pass"
    notebook.cells.remove(second)


def dies(notebook: Notebook) -> None:
    solution_of(notebook, "ledger_of_one").source = "import os; os._exit(1)"


HANDED_IN: dict[str, tuple[str, Callable[[Notebook], None]]] = {
    "right": ("teacher", lambda notebook: None),
    "unsolved": ("student", lambda notebook: None),
    "one_wrong": ("teacher", one_wrong),
    "cheats": ("teacher", checks_of_his_own),
    "dies": ("teacher", dies),
}


def grade(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "lessons.grade", "-p", "no:cacheprovider", str(folder)]
    return subprocess.run(
        [*command, f"--junitxml={folder}/points.xml"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, dict[str, str]]]:
    """What was printed, and by student and check what is wrong (nothing: it passed)."""
    folder = tmp_path_factory.mktemp("handed_in")
    for student, (version, change) in HANDED_IN.items():
        notebook = make_notebook(LESSON, version)
        change(notebook)
        (folder / student).mkdir()
        nbformat.write(notebook, folder / student / f"{LESSON.stem}.ipynb")
    done = grade(folder)
    found: dict[str, dict[str, str]] = {student: {} for student in HANDED_IN}
    for case in ElementTree.parse(folder / "points.xml").iter("testcase"):
        student = next(name for name in HANDED_IN if f".{name}." in f".{case.attrib['classname']}.")
        failure = case.find("failure")
        found[student][case.attrib["name"]] = "" if failure is None else str(failure.text)
    return done.stdout, found


def test_a_right_notebook_passes_every_check(graded: tuple[str, dict[str, dict[str, str]]]):
    assert graded[1]["right"] == {FIRST: "", SECOND: ""}


def test_an_unsolved_one_fails_at_its_stubs_only(graded: tuple[str, dict[str, dict[str, str]]]):
    assert graded[1]["unsolved"] == {FIRST: "NotImplementedError", SECOND: "NotImplementedError"}


def test_a_wrong_answer_is_named_with_its_first_counter_example(
    graded: tuple[str, dict[str, dict[str, str]]],
):
    found = graded[1]["one_wrong"]
    assert found[FIRST] == ""
    assert found[SECOND].startswith("Wrong: ledger_of_one(prompt=")
    assert "live should be" in found[SECOND]


def test_checks_are_ours_whatever_was_handed_in(graded: tuple[str, dict[str, dict[str, str]]]):
    found = graded[1]["cheats"]
    assert found[FIRST].startswith("Wrong: range_length(")
    assert found[SECOND].startswith("Wrong: ledger_of_one(")


def test_a_notebook_that_kills_its_python_fails_and_the_others_are_graded(
    graded: tuple[str, dict[str, dict[str, str]]],
):
    assert all(said.startswith("Python died") for said in graded[1]["dies"].values())
    assert len(graded[1]["dies"]) == 2


def test_points_are_counted_by_notebook(graded: tuple[str, dict[str, dict[str, str]]]):
    table = re.findall(r"^ *(\d+) of +2  (?:.*/)?(\w+)/[^/]+\.ipynb$", graded[0], re.MULTILINE)
    points = {student: int(passed) for passed, student in table}
    assert points == {"right": 2, "unsolved": 0, "one_wrong": 1, "cheats": 0, "dies": 0}


def test_what_is_no_lesson_fails_by_itself(tmp_path: Path):
    nbformat.write(nbformat.v4.new_notebook(), tmp_path / "shopping.ipynb")
    (tmp_path / "torn.ipynb").write_text("{")
    done = grade(tmp_path)
    assert done.returncode == 1
    assert "no cell has the id of one of this course's" in done.stdout
    assert "is no notebook: " in done.stdout
    for name in ("shopping", "torn"):
        assert re.search(rf"^ +0 of +1  \S*{name}\.ipynb$", done.stdout, re.MULTILINE)
