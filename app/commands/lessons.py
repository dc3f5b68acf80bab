"""`pagelab lessons`: the course, and where its notebooks lie."""

import re
import subprocess
import sys
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from sim import InputError

COURSE = Path(__file__).parents[2] / "lessons"
TITLE = re.compile(r"^# # (?P<number>\d+)\. (?P<title>.+)$", re.MULTILINE)
MINUTES = re.compile(r"\*Time\*: (?P<minutes>\d+) minutes")


@click.command(short_help="list the lessons, or open one in Jupyter")
@click.option("--open", "number", type=int, help="open the student's notebook of this lesson in Jupyter Lab")
@click.option("--teacher", is_flag=True, help="with --open: the teacher's version, with solutions")
def lessons(number: int | None, teacher: bool) -> None:
    """List the course; --open N starts a lesson."""
    if teacher and number is None:
        raise InputError("--teacher without --open: name the lesson, such as --open 4 --teacher")
    found = {int(path.stem[:2]): path for path in sorted((COURSE / "sources").glob("[0-9][0-9]_*.py"))}
    if not found:
        raise InputError(f"{COURSE}: holds no lessons; run this in a checkout of PageLab")
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
