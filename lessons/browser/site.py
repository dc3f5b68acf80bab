"""Writes the folder of the page; any web server can hand it out."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, select_autoescape

from app.files import write_text
from lessons.browser.pack import archive
from lessons.browser.text import Lesson, read_lesson
from lessons.source import lesson_paths
from sim import __version__
from sim.files import new_file

HERE = Path(__file__).parent
LAST_LESSON = 4  # the next one wants torch and Triton
ARCHIVE = "pagelab.zip"
FILES = ("page.css", "page.js", "outputs.js", "work.js", "worker.js", "python.js")


def parts(version: str = "student") -> list[Lesson]:
    """What the page shows, in order."""
    lessons = [path for path in lesson_paths() if int(path.stem[:2]) <= LAST_LESSON]
    return [read_lesson(source, version) for source in (*lessons, HERE / "simulator.py")]


def page() -> str:
    """The text of index.html."""
    environment = Environment(
        loader=FileSystemLoader(HERE / "page"), autoescape=select_autoescape(), trim_blocks=True
    )
    return environment.get_template("index.html.j2").render(parts=parts(), version=__version__)


def write_site(folder: Path) -> None:
    """Writes all files into `folder`, which is made if need be; what else lies there stays.

    Raises InputError when the folder cannot be written.
    """
    with new_file(folder / ARCHIVE) as out:
        out.write(archive(parts()))
    for name in FILES:
        write_text(folder / name, (HERE / "page" / name).read_text(encoding="utf-8"))
    write_text(folder / "index.html", page())
