"""A comparison as a job. The engine runs in a process of its own.

So the pages stay quick, PyTorch is loaded where it is used, the memory that is measured is the engine's
alone, and a run can be stopped at any moment, even one that compiles. What comes back is plain.
"""

from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from app.jobs import Job
from sim import Config, InputError, Trace, simulate
from sim.series import Row

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
    return Job(lambda report: work(asked, report, serve), expected=(InputError,))


def work(asked: Asked, report: Report, target: Callable[[Asked, Connection], None]) -> Told:
    """Starts `target` in a process, passes on what it tells, and ends it whatever happens."""
    context = get_context("spawn")  # a fork of a server with threads could hang
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=target, args=(asked, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        report(0.0, "starting a process, loading PyTorch")
        return follow(ours, report)
    except EOFError:
        process.join()
        raise InputError(
            f"the engine's process ended with code {process.exitcode} and no result; a smaller pool or fewer "
            "requests may help, and the server's log may say more"
        ) from None
    finally:
        process.kill()
        process.join()
        ours.close()


def follow(pipe: Connection, report: Report) -> Told:
    """Passes on every step until the result is there. Raises EOFError when the other end closes before."""
    step = Step(0.0, "starting a process, loading PyTorch")
    while True:
        report(step.share, step.what)
        if not pipe.poll(LOOK_EVERY_S):
            continue
        match pipe.recv():
            case Step() as step:
                pass
            case Told() as told:
                return told
            case Refused(problem):
                raise InputError(problem)
            case other:
                raise AssertionError(f"the engine's process told {other!r}")


def serve(asked: Asked, pipe: Connection) -> None:
    """In the process: simulates to know how many steps there will be, executes, puts both side by side."""
    from app.comparison import compare_with, execute
    from app.measured_report import tell

    def on_step(row: Row, num_ended: int) -> None:
        ended = f"{num_ended} of {asked.trace.num_requests} requests ended"
        pipe.send(Step(row.step / max(num_steps, row.step), f"step {row.step:,} of {num_steps:,}, {ended}"))

    try:
        num_steps = simulate(asked.trace, asked.config, record=False).num_steps
        pipe.send(Step(0.0, "filling the pool with the sentinel, compiling kernels"))
        measured = execute(asked.trace, asked.config, on_step=on_step)
        pipe.send(Step(1.0, "comparing every step"))
        pipe.send(tell(compare_with(measured, asked.trace, asked.config)))
    except InputError as error:
        pipe.send(Refused(str(error)))
