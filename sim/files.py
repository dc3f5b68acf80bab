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

    Until then what stood there before stays. Missing folders are made. A device or a pipe is written to as it
    is. Raises InputError when the place cannot be written or the disk is full.
    """
    refuse_place(path)
    scratch: str | None = None
    try:
        if path.exists() and not path.is_file():
            with open(path, "wb") as out:
                yield out
            return
        path = Path(os.path.realpath(path))  # a link stays, what it points to is replaced
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, scratch = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:80]}.")
        with os.fdopen(handle, "wb") as out:
            yield out
        os.chmod(scratch, 0o666 & ~_umask())
        os.replace(scratch, path)
        scratch = None
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InputError(f"cannot write {path}: {reason(error)}; choose another place") from error
    finally:
        if scratch is not None:
            os.unlink(scratch)


def refuse_place(path: Path) -> None:
    """Raises InputError where no file can be written: found before a long run rather than after it."""
    try:
        if path.is_dir():
            raise InputError(f"cannot write {path}: it is a folder; name a file in it")
        is_device = path.exists() and not path.is_file()
        place = path if is_device else next(one for one in path.absolute().parents if one.exists())
        if not is_device and not place.is_dir():
            raise InputError(f"cannot write {path}: {place} is a file, no folder; choose another place")
        if not os.access(place, os.W_OK):
            raise InputError(f"cannot write {path}: permission denied; choose another place")
    except InputError:
        raise
    except (OSError, ValueError) as error:  # a null byte in the name is a ValueError
        raise InputError(f"cannot write {path}: {reason(error)}; choose another place") from None


def reason(error: OSError | ValueError) -> str:
    """Why the system refuses, in words: `no space left on device`."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return text[:1].lower() + text[1:]


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
