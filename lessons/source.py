"""A lesson's source file, and the two notebooks that come of it.

A source is a `.py` file in jupytext's percent format. Two tags mean something here:

    # %% tags=["stub"]      a cell to fill in; what stands between the solution marks is for teachers only
    # %% tags=["check"]     a cell that calls a check on it

The marks and the cells' metadata are nbgrader's, so that a course which uses it can take the notebooks in.
"""

import re
from pathlib import Path
from typing import Any

import jupytext
from nbformat import NotebookNode

FOLDER = Path(__file__).parent
SOURCES = FOLDER / "sources"
VERSIONS = ("student", "teacher")
SOLUTION = re.compile(
    r"^(?P<indent>[ \t]*)### BEGIN SOLUTION\n.*?^[ \t]*### END SOLUTION\n?", re.MULTILINE | re.DOTALL
)
STUB = "# your code here\n{indent}raise NotImplementedError\n"


def lesson_paths() -> list[Path]:
    """All sources, in order."""
    return sorted(SOURCES.glob("[0-9][0-9]_*.py"))


def notebook_path(source: Path, version: str) -> Path:
    """Where a version of the lesson is kept."""
    return FOLDER / version / f"{source.stem}.ipynb"


def make_notebook(source: Path, version: str) -> NotebookNode:
    """The lesson's `student` or `teacher` version, not executed."""
    notebook = jupytext.read(source, fmt="py:percent")
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"{source.stem[:2]}-{number:03d}"
        tags: list[str] = cell.metadata.get("tags", [])
        if cell.cell_type == "code" and version == "student":
            cell["source"] = strip_solutions(cell["source"])
        if "check" in tags and version == "student":
            cell.metadata["tags"] = [*tags, "raises-exception"]
        if tags:
            cell.metadata["nbgrader"] = grading(cell["id"], tags)
    notebook.metadata = NotebookNode(
        kernelspec={"name": "python3", "display_name": "Python 3", "language": "python"},
        language_info={"name": "python"},
    )
    return notebook


def strip_solutions(code: str) -> str:
    """The code with a stub in the place of each solution."""
    return SOLUTION.sub(
        lambda found: found["indent"] + STUB.format(indent=found["indent"]), code + "\n"
    ).rstrip("\n")


def grading(id: str, tags: list[str]) -> dict[str, Any]:
    """What nbgrader wants to know of a cell: to be filled in, or worth a point."""
    is_check = "check" in tags
    return {
        "grade": is_check,
        "grade_id": id,
        "locked": is_check,
        "points": 1 if is_check else 0,
        "schema_version": 3,
        "solution": "stub" in tags,
        "task": False,
    }
