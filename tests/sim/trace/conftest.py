from collections.abc import Callable
from pathlib import Path

import pytest

from sim.trace import Trace

Reader = Callable[..., Trace]


@pytest.fixture
def read_text(tmp_path: Path) -> Reader:
    """Read a trace from text (or bytes) put in a file; keywords go to `Trace.read`."""

    def read(content: str | bytes, name: str = "sample", **options: object) -> Trace:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return Trace.read(path, **options)  # type: ignore[arg-type]

    return read
