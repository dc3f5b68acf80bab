"""Lessons 1 to 4 without an install: in a Python with NumPy alone, and in Pyodide under node.

Pyodide is taken from the folder named by PAGELAB_PYODIDE.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from app.cli import run
from lessons.browser.pack import archive
from lessons.browser.site import LAST_LESSON, page, parts, write_site
from lessons.browser.text import Code, as_html
from lessons.source import lesson_paths
from sim import Config, Trace, simulate

HERE = Path(__file__).parent
PYODIDE = os.environ.get("PAGELAB_PYODIDE")
START = (HERE.parents[1] / "lessons/browser/page/python.js").read_text()
VERSION = re.search(r'PYODIDE = "([\d.]+)"', START)[1]
needs_pyodide = pytest.mark.skipif(
    not (PYODIDE and shutil.which("node")),
    reason=f"needs node, and in PAGELAB_PYODIDE the folder that `npm pack pyodide@{VERSION}` packs, with the "
    "numpy wheel in it that its pyodide-lock.json names",
)
ONLY_HERE = re.MULTILINE | re.DOTALL
REPORT = """
import json
from sim import Config, Trace, simulate
for name in ("max", "buddy", "paged"):
    dials = {"allocator": "oracle", "placement": "buddy"} if name == "buddy" else {"allocator": name}
    run = simulate(Trace.read("demo"), Config(pool_tokens=2048, max_len=512, **dials))
    print(json.dumps(run.report()))
"""
Output = dict[str, Any]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    write_site(folder)
    return folder


def cells_of(version: str) -> list[Code]:
    return [cell for lesson in parts(version) for cell in lesson.cells if isinstance(cell, Code)]


def jobs_of(version: str) -> list[dict[str, str]]:
    return [
        {"lesson": f"{version} {cell.lesson}", "code": cell.source, "label": f"cell {cell.number}"}
        for cell in cells_of(version)
    ]


@pytest.fixture(
    scope="module", params=["bare", pytest.param("pyodide", marks=needs_pyodide)], ids=["bare", "pyodide"]
)
def answers(request: pytest.FixtureRequest, site: Path) -> dict[str, list[list[Output]]]:
    """The outputs of every cell: of the teacher's version, of the student's, and of a few others."""
    others = [
        REPORT,
        "import IPython",
        "1 +",
        "def f():\n    return unknown\n\nf()",
        "print(1)\ndisplay(2)\n3",
        "4;",
        "from lessons.checks import contiguous\ncontiguous.waste_of_one(lambda *case: None)",
    ]
    batches = {
        "teacher": jobs_of("teacher"),
        "asked": asked(),
        "student": jobs_of("student"),
        "others": [{"lesson": "x", "code": code, "label": f"cell {n}"} for n, code in enumerate(others)],
    }
    command = {
        "bare": [sys.executable, "-P", str(HERE / "bare_python.py"), str(site)],
        "pyodide": ["node", str(HERE / "pyodide.mjs"), str(site), str(PYODIDE)],
    }[request.param]
    jobs = json.dumps([job for batch in batches.values() for job in batch])
    done = subprocess.run(
        command, input=jobs, capture_output=True, text=True, check=False, cwd=site, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    left = iter(json.loads(done.stdout))
    return {name: [next(left) for _ in batch] for name, batch in batches.items()}


def asked() -> list[dict[str, str]]:
    """What the page's own prose asks to be put into a cell, after the lesson's cells or the simulator's."""
    jobs = list[dict[str, str]]()
    for source in lesson_paths()[:LAST_LESSON]:
        for prose in re.findall(r"^# <!-- page -->\n(.*?)^# <!-- end -->", source.read_text(), ONLY_HERE):
            for paragraph in prose.split("#\n"):
                place = "simulator" if "#simulator" in paragraph else f"lesson-{int(source.stem[:2])}"
                jobs += [
                    {"lesson": f"teacher {place}", "code": code, "label": f"cell {code}"}
                    for code in paragraph.split("`")[1::2]
                    if "(" in code
                ]
    return jobs


def errors(outputs: list[Output]) -> list[str]:
    return [f"{output['name']}: {output['text']}" for output in outputs if output["kind"] == "error"]


def test_every_cell_of_the_teachers_version_runs_and_every_check_passes(answers: dict[str, Any]):
    for cell, outputs in zip(cells_of("teacher"), answers["teacher"], strict=True):
        assert errors(outputs) == [], f"{cell.lesson}, cell {cell.number}"
        if cell.kind == "check":
            assert "right in all" in outputs[0]["text"]


def test_the_students_version_stops_at_its_checks_alone(answers: dict[str, Any]):
    for cell, outputs in zip(cells_of("student"), answers["student"], strict=True):
        expected = ["NotImplementedError: "] if cell.kind == "check" else []
        assert errors(outputs) == expected, f"{cell.lesson}, cell {cell.number}"


def test_what_the_prose_asks_for_can_be_done_on_the_page(answers: dict[str, Any]):
    assert len(answers["asked"]) >= 7
    for job, outputs in zip(asked(), answers["asked"], strict=True):
        assert errors(outputs) == [], job["code"]


def test_the_page_asks_for_nothing_that_needs_an_install():
    text = " ".join(page().split())
    assert "localhost:8501" not in text
    assert re.findall(r"<code>pagelab [^<]+</code>", text) == []
    assert text.count('<a href="#simulator">the simulator</a>') == LAST_LESSON


@pytest.mark.skipif(not shutil.which("node"), reason="needs node")
def test_another_pyodide_than_the_pages_is_refused_by_its_number(site: Path, tmp_path: Path):
    (tmp_path / "package.json").write_text('{"version": "0.1.0"}')
    command = ["node", str(HERE / "pyodide.mjs"), str(site), str(tmp_path)]
    done = subprocess.run(command, input="[]", capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1 and done.stdout == ""
    assert f"holds Pyodide 0.1.0; the page takes {VERSION}: npm pack pyodide@{VERSION}" in done.stderr


def test_a_picture_has_its_words_where_it_cannot_be_drawn(answers: dict[str, Any]):
    pictures = [out for outputs in answers["teacher"] for out in outputs if out["kind"] == "picture"]
    assert len(pictures) >= 12
    assert all(picture["text"] for picture in pictures)
    assert any("max wastes 81.2 %" in picture["text"] for picture in pictures)


def test_the_player_comes_as_a_page_in_the_page(answers: dict[str, Any]):
    pages = [out for outputs in answers["teacher"] for out in outputs if out["kind"] == "page"]
    assert len(pages) >= 1
    for output in pages:
        assert "mount(shadow, replay" in output["html"]
        assert output["text"].startswith("Contiguous (max) wastes")


def test_the_simulator_gives_the_same_report_number_for_number(answers: dict[str, Any]):
    theirs = [json.loads(line) for line in answers["others"][0][0]["text"].splitlines()]
    for report, dials in zip(
        theirs,
        ({"allocator": "max"}, {"allocator": "oracle", "placement": "buddy"}, {"allocator": "paged"}),
        strict=True,
    ):
        ours = simulate(Trace.read("demo"), Config(pool_tokens=2048, max_len=512, **dials)).report()
        assert report == json.loads(json.dumps(ours))


def test_errors_say_what_and_where_in_the_cells(answers: dict[str, Any]):
    _, missing, broken, nested, shown, hidden, wrong = answers["others"]
    assert missing[0]["name"] == "ModuleNotFoundError"
    assert (broken[0]["name"], broken[0]["trace"]) == ("SyntaxError", ["cell 2, line 1: 1 +"])
    assert nested[0]["trace"] == ["cell 3, line 4: f()", "cell 3, line 2: return unknown"]
    assert [output["text"] for output in shown] == ["1\n", "2\n", "3\n"]
    assert hidden == []
    assert [output["kind"] for output in wrong] == ["picture", "error"], "the first counter-example is shown"
    assert wrong[1]["name"] == "Wrong"


def test_the_same_sources_make_the_same_bytes_with_no_path_of_this_machine():
    assert archive(parts()) == archive(parts())
    assert page() == page()
    assert not re.search(r"/(?:home|root|tmp|work)/", page())


def test_the_page_names_every_file_that_it_needs_and_they_are_there(site: Path):
    named = set(re.findall(r'(?:src|href)="(?!#|http|data:)([^"]+)"', (site / "index.html").read_text()))
    for script in site.glob("*.js"):
        named |= set(re.findall(r'(?:from|URL\() ?"(?:\./)?([\w.]+\.(?:js|zip))"', script.read_text()))
    assert named == {path.name for path in site.iterdir()} - {"index.html"}


def test_solutions_stay_at_home(site: Path):
    text = (site / "index.html").read_text()
    assert text.count("# your code here") == sum(cell.kind == "stub" for cell in cells_of("student")) == 11
    assert "SOLUTION" not in text
    assert not any(
        "teacher" in name or "sources" in name for name in ZipFile(site / "pagelab.zip").namelist()
    )


def test_kept_work_finds_its_cell_and_no_other():
    keys = [cell.key for cell in cells_of("student")]
    assert len(set(keys)) == len(keys)


def test_a_formula_is_set_as_text_and_an_unknown_one_is_refused():
    assert as_html(r"$$\text{bytes} = 2 \times \text{layers}$$").strip() == (
        '<p class="formula">bytes = 2 \u00d7 layers</p>'
    )
    with pytest.raises(ValueError, match="sqrt"):
        as_html(r"$$\sqrt{x}$$")


def test_the_command_writes_the_folder_and_says_how_to_open_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert run(["lessons", "--site", str(tmp_path / "new" / "site")]) == 0
    assert "python -m http.server" in capsys.readouterr().out
    assert (tmp_path / "new" / "site" / "index.html").exists()
    (tmp_path / "file").write_text("")
    assert run(["lessons", "--site", str(tmp_path / "file")]) == 2
    assert run(["lessons", "--site", str(tmp_path), "--open", "1"]) == 2
