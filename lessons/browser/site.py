"""Writes the folder of the page; any web server can hand it out.

python -m lessons.browser.site DIR
"""

import sys
from io import BytesIO
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from jinja2 import Environment, FileSystemLoader, select_autoescape

from app.files import write_text
from lessons.browser.text import read_lesson
from lessons.source import lesson_paths
from sim import __version__
from sim.files import new_file

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
LAST_LESSON = 4  # the next one wants torch and Triton
ARCHIVE = "pagelab.zip"
FILES = ("page.css", "page.js", "outputs.js", "work.js", "worker.js", "python.js")
PACKED = (
    "sim/**/*.py",
    *(f"app/{name}.py" for name in ("__init__", "colours", "plots")),
    *(f"app/{name}.py" for name in ("payload", "frames", "deltas", "moments", "quiz", "topics", "recorded")),
    *(f"app/player/{name}" for name in ("__init__.py", "notebook.py", "*.js", "player.css")),
    "lessons/__init__.py",
    "lessons/pictures*.py",
    "lessons/checks/*.py",
    "lessons/browser/__init__.py",
    "lessons/browser/cells.py",
)


def sources() -> list[Path]:
    """What the page shows, in order."""
    return [*(path for path in lesson_paths() if int(path.stem[:2]) <= LAST_LESSON), HERE / "simulator.py"]


def archive() -> bytes:
    """The Python packages that the cells import, as a zip; the same files give the same bytes."""
    out = BytesIO()
    with ZipFile(out, "w", ZIP_DEFLATED) as file:
        for path in sorted({path for pattern in PACKED for path in ROOT.glob(pattern)}):
            file.writestr(ZipInfo(path.relative_to(ROOT).as_posix()), path.read_bytes(), ZIP_DEFLATED)
    return out.getvalue()


def page() -> str:
    """The text of index.html."""
    environment = Environment(
        loader=FileSystemLoader(HERE / "page"), autoescape=select_autoescape(), trim_blocks=True
    )
    parts = [read_lesson(source) for source in sources()]
    return environment.get_template("index.html.j2").render(parts=parts, version=__version__)


def write_site(folder: Path) -> None:
    """Writes all files into `folder`, which is made if need be; what else lies there stays.

    Raises InputError when the folder cannot be written.
    """
    with new_file(folder / ARCHIVE) as out:
        out.write(archive())
    for name in FILES:
        write_text(folder / name, (HERE / "page" / name).read_text(encoding="utf-8"))
    write_text(folder / "index.html", page())


if __name__ == "__main__":
    write_site(Path(sys.argv[1]))
