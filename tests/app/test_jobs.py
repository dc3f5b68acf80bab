"""Jobs: watched, stopped, one at a time, ended when nobody looks. No page, no engine."""

import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from app import jobs
from app.engine_job import Asked, work
from app.jobs import Job, Phase
from sim import Config, InputError, Trace
from tests.waiting import wait_for

ASKED = Asked(Trace.read("demo").first(2), Config(pool_tokens=4096))


def until(condition: Callable[[], Any], what: str) -> None:
    wait_for(condition, what, 60)


def endless(report) -> None:
    for step in range(10**6):
        report(0.5, f"step {step}")
        time.sleep(0.005)


def test_a_job_says_how_far_it_is_and_then_what_came_of_it():
    go_on = threading.Event()

    def half(report):
        report(0.5, "half")
        go_on.wait(60)
        return 42

    job = Job(half)
    until(lambda: job.what == "half", "the report")
    assert job.is_active and job.share == 0.5
    go_on.set()
    job.join(60)
    assert job.phase is Phase.DONE and job.result == 42 and not job.is_active


def test_stopping_ends_the_work_and_lets_the_next_begin():
    first, second = Job(endless), Job(lambda report: "mine")
    until(lambda: first.phase is Phase.RUNNING or second.phase is Phase.DONE, "the first to begin")
    until(lambda: first.phase is Phase.RUNNING, "the first to begin")
    first.stop()
    for job in (first, second):
        job.join(60)
    assert first.phase is Phase.STOPPED and first.result is None
    assert second.result == "mine"


def test_one_waits_for_the_other_and_can_be_stopped_while_it_waits():
    first = Job(endless)
    until(lambda: first.phase is Phase.RUNNING, "the first to begin")
    second = Job(lambda report: "never")
    time.sleep(0.2)
    assert second.phase is Phase.QUEUED and "another visitor" in second.what
    second.stop()
    second.join(60)
    assert second.phase is Phase.STOPPED and second.result is None
    first.stop()
    first.join(60)


def test_work_that_nobody_watches_any_more_ends(monkeypatch):
    monkeypatch.setattr(jobs, "FORGOTTEN_S", 0.2)
    job = Job(endless)
    job.join(60)
    assert job.phase is Phase.STOPPED


def refuse(report) -> None:
    raise InputError("too large: take less")


def test_an_error_for_people_is_kept_as_it_is():
    job = Job(refuse, expected=(InputError,))
    job.join(60)
    assert (job.phase, job.problem) == (Phase.FAILED, "too large: take less")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_fault_of_ours_is_told_without_its_trace_and_frees_the_turn():
    job = Job(lambda report: [][1])
    job.join(60)
    assert job.phase is Phase.FAILED
    assert "IndexError" in job.problem and "Traceback" not in job.problem
    after = Job(lambda report: 1)
    after.join(60)
    assert after.result == 1


def program(body: str) -> list[str]:
    """A process in place of the engine's."""
    head = "import sys, os, time, pickle; from app.engine_job import Step, Refused, Told; "
    return [sys.executable, "-c", head + body]


def test_stopping_ends_the_process_even_if_it_does_not_answer():
    hang = program(
        "pickle.dump(Step(0.25, f'hanging {os.getpid()}'), sys.stdout.buffer); sys.stdout.flush(); "
        "time.sleep(600)"
    )
    job = Job(lambda report: work(ASKED, report, hang))
    until(lambda: job.what.startswith("hanging"), "the process to tell")
    assert job.share == 0.25
    process = int(job.what.split()[1])
    os.kill(process, 0)
    job.stop()
    job.join(60)
    assert job.phase is Phase.STOPPED
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_a_process_that_dies_is_told_with_its_code():
    with pytest.raises(InputError, match="ended with code 3 and no result"):
        work(ASKED, lambda share, what: None, program("sys.exit(3)"))


def test_a_process_that_talks_nonsense_is_no_result_either():
    with pytest.raises(InputError, match="no result"):
        work(ASKED, lambda share, what: None, program("print('nonsense')"))


def test_what_the_engine_refuses_reaches_the_visitor():
    decline = program("pickle.dump(Refused('no such device'), sys.stdout.buffer)")
    with pytest.raises(InputError, match=r"^no such device$"):
        work(ASKED, lambda share, what: None, decline)
