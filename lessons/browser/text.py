"""A lesson's cells as the page needs them: prose as HTML, code as it stands with what it is for."""

import re
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from markdown_it import MarkdownIt

from lessons.source import make_notebook

MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable("table")  # our own text, so its HTML is wanted
FORMULA = re.compile(r"^\$\$(?P<tex>.+)\$\$$", re.MULTILINE)
SYMBOLS = {r"\times": "\u00d7"}  # a multiplication sign
TITLE = re.compile(r"^# (?:\d+\. )?(?P<title>.+)")


@dataclass(frozen=True, slots=True)
class Code:
    """A cell that can be edited and run."""

    lesson: str
    number: int
    kind: str  # "code", "stub" (to be filled in) or "check"
    source: str

    @property
    def key(self) -> str:
        """What the browser keeps the student's work under: it follows from the text, not from the place."""
        return f"{self.lesson}-{sha256(self.source.encode()).hexdigest()[:12]}"

    @property
    def num_lines(self) -> int:
        return self.source.count("\n") + 1


@dataclass(frozen=True, slots=True)
class Lesson:
    """One part of the page: text (HTML) and code in the order of the source."""

    id: str
    number: int | None  # None: a part that is no lesson
    title: str
    cells: list[str | Code]

    @property
    def short_title(self) -> str:
        return re.split("[,:]", self.title)[0]

    @property
    def num_checks(self) -> int:
        return sum(isinstance(cell, Code) and cell.kind == "check" for cell in self.cells)


def read_lesson(source: Path, version: str = "student") -> Lesson:
    """The cells of a source; one whose name has no number in front is a part that is no lesson."""
    number = int(source.stem[:2]) if source.stem[:2].isdigit() else None
    id = f"lesson-{number}" if number else source.stem
    made = make_notebook(source, version, "page").cells
    title = TITLE.match(made[0].source)
    assert title, f"{source.name} has no title"
    cells, num_code = list[str | Code](), 0
    for cell in made:
        if cell.cell_type == "markdown":
            cells.append(as_html(cell.source))
            continue
        num_code += 1
        tags = cell.metadata.get("tags", [])
        kind = next((tag for tag in ("stub", "check") if tag in tags), "code")
        cells.append(Code(id, num_code, kind, cell.source))
    return Lesson(id, number, title["title"], cells)


def as_html(markdown: str) -> str:
    """Prose as HTML. A formula that stands alone is set as text: ValueError where that is not enough."""
    return MARKDOWN.render(FORMULA.sub(_formula, markdown))


def _formula(found: re.Match[str]) -> str:
    text = re.sub(r"\\text\{([^}]*)\}", r"\1", found["tex"])
    for name, symbol in SYMBOLS.items():
        text = text.replace(name, symbol)
    if "\\" in text:
        raise ValueError(f"{found['tex']}: only \\text, {', '.join(SYMBOLS)} are known in formulas")
    return f'<p class="formula">{text}</p>'
