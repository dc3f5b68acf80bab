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
    facts = {"processor": processor(), "cores": os.cpu_count(), "python": platform.python_version()}
    return {**facts, **{package: _version(package) for package in ("pagelab", *packages)}}


def let_threads_sleep() -> None:
    """Waits until no thread of torch's last operation is awake.

    They wait for the next one in a busy loop, for milliseconds, and cost whoever is timed next a core.
    """
    time.sleep(0.02)


def processor() -> str:
    """The processor's model name, where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
