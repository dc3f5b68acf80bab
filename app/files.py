"""Writing results: whole or not at all, and with one clear line when it cannot be done."""

import fcntl
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from sim.errors import InputError
from sim.files import new_file, reason, refuse_place


def write_file(path: Path, write: Callable[[BinaryIO], None]) -> None:
    """Writes a file through `write(out)`; it appears under its name only once it is complete."""
    with new_file(path) as out:
        write(out)


def write_text(path: Path, text: str) -> None:
    """`write_file` for a whole text, as UTF-8."""
    with new_file(path) as out:
        out.write(text.encode())


@contextmanager
def only_writer(folder: Path) -> Generator[None]:
    """Keeps a folder, made if need be, to this process: no report of one run beside the plots of another.

    Raises InputError when another process is writing there. The lock ends with the process, however it ends.
    """
    refuse_place(folder / "report.html")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise InputError(f"cannot write {folder}: {reason(error)}; choose another place") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise InputError(
            f"{folder}: another run is writing there; wait until it has ended, or choose another folder"
        ) from None
    finally:
        os.close(handle)
