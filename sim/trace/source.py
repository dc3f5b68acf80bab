"""Where a trace comes from: a plain or gzip file or standard input, as text with numbered lines."""

import gzip
import sys
import zlib
from dataclasses import dataclass
from pathlib import Path

from sim.errors import InputError

STANDARD_INPUT = "-"
_GZIP_MAGIC = b"\x1f\x8b"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, slots=True)
class Source:
    """Text to read a trace from. `label` is how errors call it, `name` how the trace will be called."""

    label: str
    name: str
    lines: tuple[str, ...]  # without line ends; an editor's line 1 is lines[0]
    num_before: int = 0  # lines of the file that came before these

    def error(self, problem: str, *, line: int | None = None, field: str | None = None) -> InputError:
        """An `InputError` that says where: file, then line and field where they are known."""
        at_line = f", line {self.num_before + line}" if line is not None else ""
        at_field = f", {field}" if field is not None else ""
        return InputError(printable(f"{self.label}{at_line}{at_field}: {problem}"))

    def first_line(self) -> tuple[int, str]:
        """Number and text of the first line that is not blank. Raises `InputError` when there is none."""
        for number, line in enumerate(self.lines, start=1):
            if line.strip():
                return number, line
        raise self.error("is empty: a trace needs at least one request")


def printable(text: str) -> str:
    """`text` as it may stand in a one-line message: line ends and the like are escaped."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def open_source(where: str) -> Source:
    """Read `where` ("-" is standard input) to the end.

    Raises `FileNotFoundError` when there is no such file, `InputError` when it cannot be read.
    """
    if where == STANDARD_INPUT:
        return source_from_bytes("standard input", "stdin", sys.stdin.buffer.read())
    label = printable(where)
    try:
        data = Path(where).read_bytes()
    except FileNotFoundError:
        raise
    except IsADirectoryError:
        raise InputError(f"{label}: is a directory; name a file in it") from None
    except (OSError, ValueError) as error:  # ValueError: a null byte in the path
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InputError(f"{label}: cannot be read: {reason.lower()}") from None
    return source_from_bytes(label, printable(Path(where).name), data)


def source_from_bytes(label: str, name: str, data: bytes) -> Source:
    """Unpack gzip (told by its first two bytes), decode UTF-8 with or without a byte-order mark."""
    if data.startswith(_GZIP_MAGIC):
        data = _unpacked(label, data)
    if data.startswith(_UTF16_MARKS):
        raise InputError(f"{label}: is UTF-16 text; save it as UTF-8")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"{label}, line {line}: is not UTF-8 text; save the file as UTF-8") from None
    return Source(label, name, tuple(text.replace("\r\n", "\n").replace("\r", "\n").split("\n")))


def _unpacked(label: str, data: bytes) -> bytes:
    try:
        return gzip.decompress(data)
    except EOFError:
        raise InputError(f"{label}: the gzip file is cut short; copy or download it again") from None
    except (OSError, zlib.error) as error:
        raise InputError(f"{label}: the gzip file is damaged ({error}); copy or download it again") from None
