"""Shared by all tests: Triton's interpreter and no GPU, short traces, and the public data.

Tests compare kernels on CPU tensors, so they are interpreted on every machine, also on one with a GPU. An
interpreted kernel on a GPU's tensors is slow and cannot be recorded, so nothing here sees one. What needs
the compiler or a GPU runs in a process of its own: `tests.engine.attention.processes`, `bench.gpu`.
"""

import os
from pathlib import Path

os.environ["TRITON_INTERPRET"] = "1"  # before anything imports a kernel
os.environ["CUDA_VISIBLE_DEVICES"] = ""

from collections.abc import Callable

import pytest

from sim import Trace
from tests.making import requests as make_requests

DATA = Path(__file__).parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def requests() -> Callable[..., Trace]:
    """`requests((65, 1), (10, 5, 3.0))`: a trace of (prompt, output, arrival = 0, max_tokens = output)."""
    return make_requests


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of public traces beside the checkout; the test is skipped where there is none."""
    if not DATA.is_dir():
        pytest.skip(f"public traces are not here: {DATA} is missing")
    return DATA


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The processor's seconds of what recorded them as `cpu_s`: the lessons."""
    seconds = {
        report.nodeid.partition("[")[2].rstrip("]"): value
        for report in terminalreporter.getreports("passed") + terminalreporter.getreports("failed")
        for name, value in getattr(report, "user_properties", ())
        if name == "cpu_s"
    }
    if seconds:
        told = ", ".join(f"{name} {value}" for name, value in sorted(seconds.items()))
        terminalreporter.write_line(f"processor's seconds of each lesson: {told}")
