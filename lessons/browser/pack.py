"""The Python that the page needs, as one archive: the simulator, and what the cells import beside it."""

import ast
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from lessons.browser.text import Code, Lesson

ROOT = Path(__file__).parents[2]
PACKAGES = ("sim", "app", "lessons")
RUNNER = "lessons.browser.cells"
ALWAYS = ("sim/**/*.py", "app/player/*.js", "app/player/*.css")  # to play with, and what the player reads


def archive(lessons: list[Lesson]) -> bytes:
    """A zip of all packages that these lessons' cells import, of ours; the same files give the same bytes."""
    cells = (cell.source for lesson in lessons for cell in lesson.cells if isinstance(cell, Code))
    files = {path for pattern in ALWAYS for path in ROOT.glob(pattern)}
    files |= reachable({RUNNER}.union(*map(imported, cells)))
    out = BytesIO()
    with ZipFile(out, "w") as file:
        for path in sorted(files):
            file.writestr(ZipInfo(path.relative_to(ROOT).as_posix()), path.read_bytes(), ZIP_DEFLATED)
    return out.getvalue()


def reachable(names: set[str]) -> set[Path]:
    """The files of these modules of ours and of all that they import, wherever in their text they do so."""
    files, waiting = set[Path](), list(names)
    while waiting:
        for path in files_of(waiting.pop()):
            if path not in files:
                files.add(path)
                waiting += imported(path.read_text(encoding="utf-8"))
    return files


def imported(code: str) -> set[str]:
    """Names that may be modules: of `from a import b` both `a` and `a.b`."""
    names = set[str]()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def files_of(name: str) -> Iterator[Path]:
    """The file of a module of ours and those of the packages around it; none for what is not ours."""
    parts = name.split(".")
    if parts[0] not in PACKAGES:
        return
    for count in range(1, len(parts) + 1):
        place = ROOT.joinpath(*parts[:count])
        yield from (path for path in (place / "__init__.py", place.with_suffix(".py")) if path.exists())
