"""How the loops of backend `cpu` are compiled, and where the result is kept."""

import hashlib
from pathlib import Path
from typing import Any

import numba

# Sums may be reordered and fused, which makes them vector code. NaN and infinity keep their meaning.
FASTMATH = {"reassoc", "contract", "nsz"}


def source_stamp() -> str:
    """A hash of this folder's compiled sources."""
    sources = sorted(Path(__file__).parent.glob("cpu_*.py"))
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]


SOURCE_STAMP = source_stamp()


def compiled(function: Any) -> Any:
    """numba.njit without the GIL, cached on disk where there is a place to write.

    numba looks for a stale cache in the file of a function, not in those of the functions that it calls,
    so the name under which it is cached carries a stamp of them all.
    """
    function.__qualname__ = f"{function.__qualname__}_{SOURCE_STAMP}"
    options: Any = {"nogil": True, "fastmath": FASTMATH, "error_model": "numpy"}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # "cannot cache function": neither this folder nor the home can be written
        return numba.njit(**options)(function)
