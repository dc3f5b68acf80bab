"""A configuration in a process of its own: it may do what it wants, its worker gets a row."""

import signal
import subprocess
import sys
from threading import Thread
from typing import Any

import orjson
import psutil
import pytest

from sim.sweep import work, work_alone
from sim.sweep.alone import ROOT, NurseryGone
from sim.sweep.nursery import life
from tests.sim.sweep.making import DEMO, HOG, SLOW, nurseries
from tests.waiting import wait_for


class Working(Thread):
    """`work_alone` in a thread, with the processes behind it."""

    def __init__(self, configuration: dict[str, Any]) -> None:
        super().__init__()
        self.configuration = configuration
        self.row: dict[str, Any] | None = None
        self.error: Exception | None = None
        before = set(nurseries(psutil.Process()))
        self.start()
        (self.nursery,) = wait_for(lambda: set(nurseries(psutil.Process())) - before)
        (self.child,) = wait_for(self.nursery.children)

    def run(self) -> None:
        try:
            self.row = work_alone(self.configuration)
        except NurseryGone as error:
            self.error = error


def test_the_row_is_that_of_the_same_work_done_here():
    assert work_alone(DEMO) == work(DEMO)


def test_what_is_refused_says_why():
    assert work_alone({**DEMO, "block_size": 0}) == {
        "status": "refused",
        "why": "block size 0: must be at least 1 (16 is usual)",
    }
    assert "no such file" in work_alone({"trace": "nowhere.csv"})["why"]
    assert "rate scale 'fast': must be a number" in work_alone({**DEMO, "rate_scale": "fast"})["why"]


def test_a_memory_hog_is_stopped_at_its_limit_and_what_comes_after_it_is_not():
    limit_bytes = 200 << 20
    row = work_alone(HOG, limit_bytes)
    assert row == {"status": "out of memory", "why": "needs more memory than its limit of 209715200 bytes"}
    assert work_alone(DEMO, limit_bytes) == work(DEMO)
    assert work_alone(HOG)["status"] == "done"


def test_the_limit_counts_the_trace_too(tmp_path):
    path = tmp_path / "long.csv"
    path.write_text("num_prefill_tokens,num_decode_tokens\n" + "12,3\n" * 200_000)
    assert work_alone({"trace": str(path)}, 30 << 20)["status"] == "out of memory"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT])
def test_a_child_that_is_killed_leaves_a_row_that_says_by_what(number):
    working = Working(SLOW)
    working.child.send_signal(number)
    working.join()
    assert working.row
    assert working.row["status"] == "crashed"
    assert f"killed by {number.name}" in working.row["why"]


def test_a_fault_in_our_code_is_a_row_and_not_a_traceback(monkeypatch):
    def fault(*_):
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr("sim.sweep.nursery.work", fault)
    trace: Any = None
    assert life(DEMO, trace, None) == {"status": "crashed", "why": "ZeroDivisionError: by nothing"}


def test_a_nursery_whose_worker_goes_while_it_answers_ends_without_a_word():
    """It once left the traceback of a broken pipe, seen at a Ctrl-C amid many short configurations."""
    with subprocess.Popen(
        [sys.executable, "-m", "sim.sweep.nursery"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT,
    ) as nursery:  # fmt: skip
        assert nursery.stdin and nursery.stdout and nursery.stderr
        nursery.stdout.close()  # nobody reads its answer
        nursery.stdin.write(orjson.dumps({"configuration": DEMO, "limit_bytes": None}) + b"\n")
        nursery.stdin.flush()
        assert nursery.stderr.read() == b""
    assert nursery.returncode == 1


def test_a_nursery_that_is_killed_takes_its_child_along_and_is_replaced():
    working = Working(SLOW)
    working.nursery.kill()
    working.join()
    assert working.error
    assert "code -9" in str(working.error)
    assert work_alone(DEMO) == work(DEMO)
    wait_for(lambda: not working.child.is_running(), seconds=2)  # left alone it would run for half a minute
