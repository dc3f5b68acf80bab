"""Every lesson runs from top to bottom, as a teacher has it and as a student gets it."""

import re
from pathlib import Path

import nbformat
import pytest

from lessons.build import execute
from lessons.source import VERSIONS, lesson_paths, make_notebook, notebook_path, strip_solutions

LESSONS = lesson_paths()
MAX_STUB_LINES = 8


def ids(path: Path) -> str:
    return path.stem


def errors_of(notebook: nbformat.NotebookNode) -> list[tuple[str, list[str]]]:
    """The name of each error, with the tags of the cell that it came from."""
    return [
        (output["ename"], cell.metadata.get("tags", []))
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if output["output_type"] == "error"
    ]


@pytest.mark.parametrize("source", LESSONS, ids=ids)
def test_the_teachers_version_runs_without_an_error(source: Path):
    assert errors_of(execute(make_notebook(source, "teacher"))) == []


@pytest.mark.parametrize("source", LESSONS, ids=ids)
def test_the_students_version_stops_at_its_checks_alone(source: Path):
    notebook = execute(make_notebook(source, "student"))
    checks = [cell for cell in notebook.cells if "check" in cell.metadata.get("tags", [])]
    errors = errors_of(notebook)
    assert len(errors) == len(checks) > 0
    for name, tags in errors:
        assert name == "NotImplementedError"
        assert "check" in tags


@pytest.mark.parametrize("source", LESSONS, ids=ids)
@pytest.mark.parametrize("version", VERSIONS)
def test_the_committed_notebook_is_what_its_source_makes(source: Path, version: str):
    committed = nbformat.read(notebook_path(source, version), as_version=4)
    made = make_notebook(source, version)
    assert [(cell.cell_type, cell.source) for cell in committed.cells] == [
        (cell.cell_type, cell.source) for cell in made.cells
    ], "build the lessons again: python -m lessons.build"
    assert not re.search(r"/(?:home|root|tmp|work)/", notebook_path(source, version).read_text()), (
        "a machine's path"
    )
    ran = [cell for cell in committed.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in ran), "it lies there without having been executed"


@pytest.mark.parametrize("source", LESSONS, ids=ids)
def test_a_lesson_has_its_seven_beats_and_says_what_was_not_proved(source: Path):
    text = source.read_text(encoding="utf-8")
    for beat in ("## Predict", "## Run", "## Look", "## Build", "## Stretch", "## What you proved"):
        assert f"# {beat}" in text, beat
    assert 'tags=["stub"]' in text
    assert 'tags=["check"]' in text
    assert "http://localhost:8501/?" in text, "it opens the app at a state"


@pytest.mark.parametrize("source", LESSONS, ids=ids)
def test_a_stub_is_short(source: Path):
    for solution in re.findall(r"### BEGIN SOLUTION\n(.*?)### END SOLUTION", source.read_text(), re.DOTALL):
        lines = [line for line in solution.splitlines() if line.strip() and not line.strip().startswith("#")]
        assert len(lines) <= MAX_STUB_LINES, solution


def test_a_solution_is_replaced_where_it_stands():
    code = "def f(x):\n    ### BEGIN SOLUTION\n    y = x\n    return y\n    ### END SOLUTION\n\nf(1)"
    assert strip_solutions(code) == "def f(x):\n    # your code here\n    raise NotImplementedError\n\nf(1)"
