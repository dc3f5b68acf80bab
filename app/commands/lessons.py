"""`pagelab lessons`: the course, where its notebooks lie, and its first part as a page for the browser."""

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from sim import InputError

COURSE = Path(__file__).parents[2] / "lessons"
TITLE = re.compile(r"^# # (?P<number>\d+)\. (?P<title>.+)$", re.MULTILINE)
MINUTES = re.compile(r"\*Time\*: (?P<minutes>\d+) minutes")


@click.command()
@click.option("--open", "number", type=int, help="open the student's notebook of this lesson in Jupyter Lab")
@click.option("--teacher", is_flag=True, help="with --open: the teacher's version, with solutions")
@click.option(
    "--site",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="write lessons 1 to 4 and the simulator as a page that runs in a browser, with nothing installed",
)
def lessons(number: int | None, teacher: bool, site: Path | None) -> None:
    """List the course; --open N starts a lesson; --site DIR writes a page that needs no install."""
    if site is not None and number is not None:
        raise InputError("--site with --open: one writes a page, the other opens a notebook; choose one")
    if teacher and number is None:
        raise InputError("--teacher without --open: name the lesson, such as --open 4 --teacher")
    found = {int(path.stem[:2]): path for path in sorted((COURSE / "sources").glob("[0-9][0-9]_*.py"))}
    if not found:
        raise InputError(f"{COURSE}: holds no lessons; run this in a checkout of PageLab")
    if site is not None:
        write_site(site)
        return
    if number is None:
        show(list(found.values()))
        return
    if number not in found:
        raise InputError(f"lesson {number}: there are lessons {min(found)} to {max(found)}")
    notebook = COURSE / ("teacher" if teacher else "student") / f"{found[number].stem}.ipynb"
    try:
        subprocess.run([sys.executable, "-m", "jupyterlab", str(notebook)], check=True)
    except subprocess.CalledProcessError as error:
        raise InputError(
            f"Jupyter Lab did not start: pip install -e '.[lessons]', or open {notebook}"
        ) from error


def write_site(folder: Path) -> None:
    """Writes the page, and says how it is opened."""
    try:
        made: Any = import_module("lessons.browser.site")  # by its name: the course stands above the app
    except ModuleNotFoundError as error:
        raise InputError(f"--site needs {error.name}: pip install -e '.[lessons]'") from error
    made.write_site(folder)
    print(f"{folder}: open it with `python -m http.server -d {folder}`, then http://localhost:8000")


def show(sources: list[Path]) -> None:
    """Number, title, minutes and file of each lesson."""
    table = Table("lesson", "title", "minutes", "notebook")
    for source in sources:
        text = source.read_text(encoding="utf-8")
        title, minutes = TITLE.search(text), MINUTES.search(text)
        assert title and minutes, f"{source.name} has no title or no time"
        table.add_row(
            title["number"], title["title"], minutes["minutes"], f"lessons/student/{source.stem}.ipynb"
        )
    Console(width=120).print(table)
