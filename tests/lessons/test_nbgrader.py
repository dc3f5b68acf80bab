"""A course that uses nbgrader can take the teacher's notebooks in as source notebooks.

nbgrader itself runs where PAGELAB_NBGRADER names a Python that has it.
"""

import json
import os
import re
import subprocess
from pathlib import Path

import nbformat
import pytest

from lessons.source import VERSIONS, lesson_paths, make_notebook, notebook_path

LESSONS = lesson_paths()
PYTHON = os.environ.get("PAGELAB_NBGRADER")
MARKS = ("### BEGIN SOLUTION", "### END SOLUTION")
RELEASE = """
import json, sys
from traitlets.config import Config
import nbformat
from nbgrader.nbgraderformat import MetadataValidator
from nbgrader.preprocessors import ClearSolutions
for path in sys.argv[1:]:
    notebook = nbformat.read(path, as_version=4)
    MetadataValidator().validate_nb(notebook)
    cleared, _ = ClearSolutions(config=Config()).preprocess(notebook, {})
    print(json.dumps([cell.source for cell in cleared.cells]))
"""


@pytest.mark.parametrize("source", LESSONS, ids=lambda path: path.stem)
@pytest.mark.parametrize("version", VERSIONS)
def test_cells_say_what_nbgrader_asks_of_them(source: Path, version: str):
    cells = nbformat.read(notebook_path(source, version), as_version=4).cells
    graded = [cell for cell in cells if "nbgrader" in cell.metadata]
    ids = [cell.metadata.nbgrader.grade_id for cell in graded]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]+", id) for id in ids)
    for cell in graded:
        is_check = "check" in cell.metadata.tags
        assert is_check != ("stub" in cell.metadata.tags)
        said = {name: value for name, value in cell.metadata.nbgrader.items() if name != "grade_id"}
        assert said == {
            "grade": is_check, "locked": is_check, "points": int(is_check), "solution": not is_check,
            "schema_version": 3, "task": False,
        }  # fmt: skip
    tagged = [cell for cell in cells if {"stub", "check"} & set(cell.metadata.get("tags", []))]
    assert tagged == graded


@pytest.mark.parametrize("source", LESSONS, ids=lambda path: path.stem)
def test_the_teachers_stubs_have_one_marked_solution_each_and_no_other_cell_has_one(source: Path):
    cells = nbformat.read(notebook_path(source, "teacher"), as_version=4).cells
    for cell in cells:
        marks = [line.strip() for line in cell.source.splitlines() if line.strip() in MARKS]
        assert marks == (list(MARKS) if "stub" in cell.metadata.get("tags", []) else [])


@pytest.mark.skipif(not PYTHON, reason="needs in PAGELAB_NBGRADER a Python that has nbgrader")
def test_nbgrader_makes_the_students_version_of_the_teachers():
    command = [str(PYTHON), "-c", RELEASE, *(str(notebook_path(source, "teacher")) for source in LESSONS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    for source, line in zip(LESSONS, done.stdout.splitlines(), strict=True):
        theirs = [text.replace("# YOUR CODE HERE", "# your code here") for text in json.loads(line)]
        ours = [cell.source for cell in make_notebook(source, "student").cells]
        assert [text.replace("NotImplementedError()", "NotImplementedError") for text in theirs] == ours
