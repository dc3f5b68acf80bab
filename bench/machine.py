"""What a measurement was made on: the kind of machine and the versions, never its name or paths."""

import os
import platform
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def describe(*packages: str) -> dict[str, Any]:
    """Processor, cores, Python and package versions."""
    facts = {"processor": processor(), "vectors": vectors(), "cores": os.cpu_count()}
    facts["python"] = platform.python_version()
    return {**facts, **{package: _version(package) for package in ("pagelab", *packages)}}


def let_threads_sleep() -> None:
    """Waits until no thread of torch's last operation is awake.

    They wait for the next one in a busy loop, for milliseconds, and cost whoever is timed next a core.
    """
    time.sleep(0.02)


def processor() -> str:
    """The processor's model name, where the system tells it."""
    return _told().get("model name") or platform.processor() or platform.machine()


def vectors() -> str | None:
    """The widest vectors of an x86 processor, where the system tells them: names of models say little."""
    flags = _told().get("flags", "").split()
    return next((flag for flag in ("avx512f", "avx2", "sse2") if flag in flags), None)


def _told() -> dict[str, str]:
    """What Linux says of the first processor."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return {}
    pairs = (line.partition(":") for line in text.partition("\n\n")[0].splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
