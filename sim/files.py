"""Writing results: whole or not at all, and with one clear line when it cannot be done."""

import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from sim.errors import InputError


@contextmanager
def new_file(path: Path) -> Generator[BinaryIO]:
    """A file to write, which appears under its name only once the block has ended without an error.

    Missing folders are made. Raises InputError when the place cannot be written or the disk is full.
    """
    scratch: str | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, scratch = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "wb") as out:
            yield out
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
