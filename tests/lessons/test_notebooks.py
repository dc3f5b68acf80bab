"""Every lesson runs from top to bottom, as a teacher has it and as a student gets it."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import nbformat
import pytest

from lessons.build import timed
from lessons.source import VERSIONS, lesson_paths, make_notebook, notebook_path, strip_solutions

LESSONS = lesson_paths()
MAX_STUB_LINES = 8
MAX_CPU_S = 60  # of a lesson's kernel; its processor's time, which a machine that is busy does not stretch
FRACTION = re.compile(r"-?\d+\.\d+(?:e[-+]?\d+)?")


@dataclass(frozen=True, slots=True)
class Execution:
    """A lesson that has just been executed, and what it took."""

    source: Path
    version: str
    notebook: nbformat.NotebookNode
    cpu_s: float


@pytest.fixture(
    scope="module",
    params=[(source, version) for source in LESSONS for version in VERSIONS],
    ids=lambda case: f"{case[0].stem}-{case[1]}",
)
def execution(request: pytest.FixtureRequest) -> Execution:
    source, version = request.param
    return Execution(source, version, *timed(make_notebook(source, version)))


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


def told(notebook: nbformat.NotebookNode) -> dict[str, str]:
    """What each cell printed and showed, in words, unless it says that it varies; fractions to six digits."""
    return {
        cell.id: FRACTION.sub(lambda found: f"{float(found[0]):.6g}", "".join(map(words, cell.outputs)))
        for cell in notebook.cells
        if cell.cell_type == "code" and "varies" not in cell.metadata.get("tags", [])
    }


def words(output: nbformat.NotebookNode) -> str:
    """An output as text; empty for what went to standard error."""
    if output.output_type == "stream":
        return output.text if output.name == "stdout" else ""
    return output.data.get("text/plain", "") if "data" in output else f"{output.ename}: {output.evalue}"


def test_the_teachers_version_runs_without_an_error_and_the_students_stops_at_its_checks_alone(
    execution: Execution,
):
    checks = [cell for cell in execution.notebook.cells if "check" in cell.metadata.get("tags", [])]
    errors = errors_of(execution.notebook)
    assert len(checks) > 0
    assert len(errors) == (len(checks) if execution.version == "student" else 0)
    for name, tags in errors:
        assert name == "NotImplementedError"
        assert "check" in tags


def test_a_lesson_takes_a_minute_at_most(
    execution: Execution, record_property: Callable[[str, object], None]
):
    record_property("cpu_s", round(execution.cpu_s, 1))
    assert 0 < execution.cpu_s < MAX_CPU_S


def test_the_committed_outputs_are_what_the_cells_say_today(execution: Execution):
    committed = nbformat.read(notebook_path(execution.source, execution.version), as_version=4)
    assert told(committed) == told(execution.notebook), (
        f"build the lesson again: python -m lessons.build {int(execution.source.stem[:2])}"
    )


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
    hook = make_notebook(source, "student").cells[0].source
    assert re.search(r"^# \d+\. .+\n\n[^*]*\*\*.+?\*\*", hook, re.DOTALL), "it begins with what surprises"
    minutes = re.search(r"\*Time\*: (\d+) minutes", hook)
    assert minutes and 30 <= int(minutes[1]) <= 45
    assert "http://localhost:8501/?" in text, "it opens the app at a state"


@pytest.mark.parametrize("source", LESSONS, ids=ids)
def test_every_stub_is_followed_by_its_check(source: Path):
    code = [cell for cell in make_notebook(source, "student").cells if cell.cell_type == "code"]
    tags = [cell.metadata.get("tags", []) for cell in code]
    stubs = [place for place, found in enumerate(tags) if "stub" in found]
    assert stubs
    for place in stubs:
        name = re.search(r"def (\w+)", code[place].source)
        assert "check" in tags[place + 1]
        assert name and name[1] in code[place + 1].source


@pytest.mark.parametrize("source", LESSONS, ids=ids)
def test_a_stub_is_short(source: Path):
    for solution in re.findall(r"### BEGIN SOLUTION\n(.*?)### END SOLUTION", source.read_text(), re.DOTALL):
        lines = [line for line in solution.splitlines() if line.strip() and not line.strip().startswith("#")]
        assert len(lines) <= MAX_STUB_LINES, solution


def test_a_solution_is_replaced_where_it_stands():
    code = "def f(x):\n    ### BEGIN SOLUTION\n    y = x\n    return y\n    ### END SOLUTION\n\nf(1)"
    assert strip_solutions(code) == "def f(x):\n    # your code here\n    raise NotImplementedError\n\nf(1)"
