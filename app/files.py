"""Writing results: whole or not at all, and with one clear line when it cannot be done."""

from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from sim.files import new_file


def write_file(path: Path, write: Callable[[BinaryIO], None]) -> None:
    """Writes a file through `write(out)`; it appears under its name only once it is complete."""
    with new_file(path) as out:
        write(out)


def write_text(path: Path, text: str) -> None:
    """`write_file` for a whole text, as UTF-8."""
    with new_file(path) as out:
        out.write(text.encode())
