"""Grades handed-in notebooks with pytest: each check is a test, so the tables and reports are pytest's.

    pytest -p lessons.grade DIR                          # every notebook below DIR
    pytest -p lessons.grade DIR --junitxml points.xml    # what a learning platform reads

A notebook is executed once, from top to bottom. Its checks are ours, whatever was handed in: a cell that was
changed is put back, and one that is missing is added at the end.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient.exceptions import DeadKernelError
from nbformat import NotebookNode

from lessons.build import execute
from lessons.source import lesson_paths, make_notebook


class NotPassed(Exception):
    """A check that raised or did not run, or a file that has none: what is to be told."""


class HandedIn(pytest.File):
    """A student's notebook of one lesson."""

    _errors: dict[str, str] | None = None  # by the check's id; once it was executed

    def collect(self) -> Iterator[pytest.Item]:
        try:
            checks = checks_of(lesson_of(read(self.path)))
        except NotPassed as error:  # a test that fails: an error here would keep the others from being graded
            self._errors = {"": str(error)}
            yield Check.from_parent(self, name="is a notebook of the course", cell="")
            return
        for cell in checks:
            yield Check.from_parent(self, name=cell.source.splitlines()[0], cell=grade_id(cell))

    def errors(self) -> dict[str, str]:
        """What each check that did not pass said."""
        if self._errors is None:
            notebook = with_our_checks(read(self.path))
            try:
                notebook = execute(notebook, allow_errors=True, interrupt_on_timeout=True)
            except DeadKernelError as error:
                self._errors = {grade_id(cell): f"Python died: {error}" for cell in notebook.cells}
            else:
                self._errors = {grade_id(cell): said for cell in notebook.cells if (said := error_of(cell))}
        return self._errors


class Check(pytest.Item):
    """A check of the lesson; it passes if its cell raises nothing."""

    def __init__(self, *, cell: str, **rest: Any) -> None:
        super().__init__(**rest)
        self.cell = cell  # nbgrader's id of it

    @property
    def notebook(self) -> HandedIn:
        """The notebook that it stands in."""
        assert isinstance(self.parent, HandedIn)
        return self.parent

    def runtest(self) -> None:
        if said := self.notebook.errors().get(self.cell):
            raise NotPassed(said)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        return str(excinfo.value) if excinfo.errisinstance(NotPassed) else super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.path, None, self.name


def pytest_collect_file(parent: pytest.Collector, file_path: Path) -> HandedIn | None:
    """Notebooks are collected, in any folder that is named."""
    return HandedIn.from_parent(parent, path=file_path) if file_path.suffix == ".ipynb" else None


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Points of each notebook: one for each check that passed."""
    points, most = Counter[str](), Counter[str]()
    for outcome in ("passed", "failed"):
        for report in terminalreporter.getreports(outcome):
            name, _, check = report.nodeid.partition("::")
            if check and name.endswith(".ipynb") and report.when == "call":
                points[name] += outcome == "passed"
                most[name] += 1
    if most:
        terminalreporter.section("points")
    for name in most:
        terminalreporter.write_line(f"{points[name]:3} of {most[name]:2}  {name}")


def read(path: Path) -> NotebookNode:
    """A notebook. Raises NotPassed for what is none."""
    try:
        return nbformat.read(path, as_version=4)
    except (OSError, ValueError) as error:
        raise NotPassed(f"is no notebook: {error}") from error


def lesson_of(notebook: NotebookNode) -> NotebookNode:
    """The lesson of which most of a notebook's graded cells are. Raises NotPassed where none are."""
    numbers = Counter(id.partition("-")[0] for cell in notebook.cells if (id := grade_id(cell)))
    number = numbers.most_common(1)[0][0] if numbers else None
    source = next((path for path in lesson_paths() if path.stem[:2] == number), None)
    if source is None:
        raise NotPassed("is no lesson: no cell has the id of one of this course's")
    return make_notebook(source, "student")


def with_our_checks(notebook: NotebookNode) -> NotebookNode:
    """The checks as they were handed out, in the place of what came back under their ids."""
    left = {grade_id(cell): cell for cell in checks_of(lesson_of(notebook))}
    for place, cell in enumerate(notebook.cells):
        if ours := left.pop(grade_id(cell), None):
            notebook.cells[place] = ours
    notebook.cells += left.values()
    return notebook


def checks_of(notebook: NotebookNode) -> list[NotebookNode]:
    """Cells worth a point."""
    return [cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("grade")]


def grade_id(cell: NotebookNode) -> str:
    """nbgrader's id of a cell; empty for one that is not graded."""
    return cell.metadata.get("nbgrader", {}).get("grade_id", "")


def error_of(cell: NotebookNode) -> str:
    """What an executed cell raised; empty if nothing. One that never ran says so."""
    if cell.cell_type != "code":
        return ""
    for output in cell.outputs:
        if output.output_type == "error":
            return f"{output.ename}: {output.evalue}".rstrip(": ")
    return "" if cell.execution_count else "it did not run"
