"""A comparison as a job. The engine runs in a process of its own.

So the pages stay quick, PyTorch is loaded where it is used, the memory that is measured is the engine's
alone, and a run can be stopped at any moment, even one that compiles. What comes back is plain.
"""

import pickle
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, Queue
from subprocess import PIPE, Popen
from threading import Thread
from typing import IO, Any

from app.jobs import Job
from sim import Config, InputError, Trace

COMMAND = (sys.executable, "-m", "app.engine_worker")
STARTING = "starting a process, loading PyTorch"
LOOK_EVERY_S = 0.2
Report = Callable[[float, str], None]


@dataclass(frozen=True, slots=True)
class Asked:
    """What to run on both sides."""

    trace: Trace
    config: Config


@dataclass(frozen=True, slots=True)
class Step:
    """How far it is, from 0 to 1, and what is being done."""

    share: float
    what: str


@dataclass(frozen=True, slots=True)
class Refused:
    """What the engine says of an input that it cannot run."""

    problem: str


@dataclass(frozen=True, slots=True)
class Told:
    """A finished comparison, ready to be shown."""

    sentence: str
    sides: list[dict[str, Any]]  # name, source, ledger, waste_percent
    residuals: list[tuple[str, ...]]  # quantity, simulated, measured, left, cause
    machine: list[tuple[str, str]]
    replay: dict[str, Any] | None  # None where it cannot be drawn; `note` says why
    note: str
    files: dict[str, bytes]  # to be saved, by name


def start(asked: Asked) -> Job[Told]:
    """Begins at once, or when the server's other run has ended."""
    return Job(lambda report: work(asked, report), expected=(InputError,))


def work(asked: Asked, report: Report, command: Sequence[str] = COMMAND) -> Told:
    """Starts the process, passes on what it tells, and ends it whatever happens."""
    report(0.0, STARTING)
    process = Popen(command, stdin=PIPE, stdout=PIPE, cwd=Path(__file__).parents[1])
    assert process.stdin and process.stdout
    try:
        with suppress(BrokenPipeError), process.stdin as pipe:  # one that has ended says so by its code
            pipe.write(pickle.dumps(asked))
        told = follow(listen(process.stdout), report)
        if told is None:
            raise InputError(
                f"the engine's process ended with code {process.wait()} and no result; a smaller pool or "
                "fewer requests may help, and the server's log may say more"
            )
        return told
    finally:
        process.kill()
        process.wait()


def listen(pipe: IO[bytes]) -> Queue[Any]:
    """What comes through the pipe, object by object, then None."""
    heard: Queue[Any] = Queue()

    def read() -> None:
        with suppress(EOFError, pickle.UnpicklingError), pipe:
            while True:
                heard.put(pickle.load(pipe))
        heard.put(None)

    Thread(target=read, daemon=True).start()
    return heard


def follow(heard: Queue[Any], report: Report) -> Told | None:
    """Passes on every step until the result is there; None when there will be none."""
    step = Step(0.0, STARTING)
    while True:
        report(step.share, step.what)
        with suppress(Empty):
            match heard.get(timeout=LOOK_EVERY_S):
                case Step() as step:
                    pass
                case Refused(problem):
                    raise InputError(problem)
                case told:
                    return told
