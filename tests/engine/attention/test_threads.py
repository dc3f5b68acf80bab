"""The compiled backend under several callers, after a fork, and without a place for its cache."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from engine.attention.cpu_backend import MIN_SHARED_READS
from tests.engine.attention.cases import Case, make_case


@contextmanager
def num_threads(number: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    yield
    torch.set_num_threads(before)


def large_case() -> Case:
    case = make_case([700, 900, 300, 1], head_dim=32, block_size=16, query_lens=[40, 40, 40, 1])
    assert int(case.seq_lens.sum()) * 2 * 32 > MIN_SHARED_READS
    return case


def test_several_threads_may_call_at_once() -> None:
    case = large_case()
    decoded, prefilled = case.decode("cpu"), case.prefill("cpu")
    with num_threads(2), ThreadPoolExecutor(4) as callers:
        many = [callers.submit(call, "cpu") for _ in range(8) for call in (case.decode, case.prefill)]
        results = [future.result() for future in many]
    assert all(torch.equal(result, decoded) for result in results[::2])
    assert all(torch.equal(result, prefilled) for result in results[1::2])


def test_the_number_of_threads_changes_no_bit() -> None:
    case, results = large_case(), []
    for number in (1, 2, 3):
        with num_threads(number):
            results.append((case.decode("cpu"), case.prefill("cpu")))
    for decoded, prefilled in results:
        assert torch.equal(decoded, results[0][0])
        assert torch.equal(prefilled, results[0][1])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_gets_threads_of_its_own() -> None:
    case = large_case()
    with num_threads(2):
        case.decode("cpu")
        child = os.fork()
        if child == 0:
            signal.alarm(60)  # waiting for threads that only the parent has would take for ever
            torch.set_num_threads(2)  # torch itself lets a child have one
            os._exit(0 if case.decode("cpu").isfinite().all() else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_the_backend_imports_where_nothing_can_be_written() -> None:
    """numba refuses cache=True when neither the source folder nor the home can be written."""
    program = (
        "import numba.core.caching as caching\n"
        "caching.CacheImpl._locator_classes = []\n"
        "import engine.attention.cpu_backend\n"
        "from engine.attention.cpu_tiles import round_up\n"
        "assert round_up(5) == 8\n"
    )
    root = Path(__file__).parents[3]
    subprocess.run([sys.executable, "-c", program], cwd=root, check=True)
