"""A lesson's source file, and the two notebooks that come of it.

A source is a `.py` file in jupytext's percent format. Three tags mean something here:

    # %% tags=["stub"]      a cell to fill in; what stands between the solution marks is for teachers only
    # %% tags=["check"]     a cell that calls a check on it
    # %% tags=["varies"]    a cell whose output tells times, or last bits: another machine gets another one

The marks and the cells' metadata are nbgrader's, so that a course which uses it can take the notebooks in.

Prose that asks for what only an installed PageLab has stands between marks of its own, each on its line,
with what the page in the browser says instead:

    <!-- installed -->  ...  <!-- page -->  ...  <!-- end -->
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
READERS = re.compile(
    r"^<!-- installed -->\n(?P<installed>.*?)^<!-- page -->\n(?P<page>.*?)^<!-- end -->(?:\n|\Z)",
    re.MULTILINE | re.DOTALL,
)
STUB = "# your code here\n{indent}raise NotImplementedError\n"


def lesson_paths() -> list[Path]:
    """All sources, in order."""
    return sorted(SOURCES.glob("[0-9][0-9]_*.py"))


def notebook_path(source: Path, version: str) -> Path:
    """Where a version of the lesson is kept."""
    return FOLDER / version / f"{source.stem}.ipynb"


def make_notebook(source: Path, version: str, reader: str = "installed") -> NotebookNode:
    """The lesson's `student` or `teacher` version, not executed; `reader` is `installed` or on the `page`."""
    notebook = jupytext.read(source, fmt="py:percent")
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"{source.stem[:2]}-{number:03d}"
        tags: list[str] = cell.metadata.get("tags", [])
        if cell.cell_type == "markdown":
            cell["source"] = READERS.sub(lambda found: found[reader], cell["source"]).rstrip("\n")
        elif version == "student":
            cell["source"] = strip_solutions(cell["source"])
        if "check" in tags and version == "student":
            cell.metadata["tags"] = [*tags, "raises-exception"]
        if "stub" in tags or "check" in tags:
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
