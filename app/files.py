"""Writing results: whole or not at all, and with one clear line when it cannot be done."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from sim import InputError


def write_file(path: Path, write: Callable[[BinaryIO], None]) -> None:
    """Writes a file through `write(out)`; it appears under its name only once it is complete.

    Missing folders are made. Raises InputError when the place cannot be written or the disk is full.
    """
    scratch: str | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, scratch = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "wb") as out:
            write(out)
        os.chmod(scratch, 0o666 & ~_umask())
        os.replace(scratch, path)
        scratch = None
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}; choose another place") from error
    finally:
        if scratch is not None:
            os.unlink(scratch)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_text(path: Path, text: str) -> None:
    """`write_file` for a whole text, as UTF-8."""
    write_file(path, lambda out: _write_all(out, text.encode()))


def _write_all(out: BinaryIO, data: bytes) -> None:
    out.write(data)
