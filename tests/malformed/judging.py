"""The judge of how malformed input is met.

A reader may take an input or refuse it with one clear line. Anything else is a fault: another exception, a
message of several lines, more than `MOST_SECONDS`, or more than `MOST_BYTES` of memory.
"""

import resource
import signal
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sim import InputError
from tests.malformed.mutations import Mutation

MOST_SECONDS = 5
MOST_BYTES = 200 * 10**6
LONGEST_LINE = 1500  # characters


@dataclass(frozen=True, kw_only=True)
class Target:
    """One reader. `seeds` are valid, and making them fills the folder; `file` is what a mutant is called."""

    seeds: Callable[[Path], Sequence[bytes]]
    mutations: Sequence[Mutation]
    read: Callable[[Path], object]
    file: str = "input"
    wanted: int = 800  # inputs that must be refused


def count_refused(
    read: Callable[[Path], object], path: Path, inputs: Generator[bytes], *, wanted: int, most_taken: int
) -> int:
    """Feeds `read` with files until it has refused `wanted` of them; returns how many it took.

    AssertionError, with what was in the file, for the first that is met in another way.
    """
    num_refused = num_taken = 0
    with limits():
        while num_refused < wanted:
            data = next(inputs)
            path.unlink(missing_ok=True)  # to cut a file to nothing first is slow on some disks
            path.write_bytes(data)
            if judge(lambda: read(path), data):
                num_refused += 1
            else:
                num_taken += 1
                assert num_taken <= most_taken, f"{num_taken} malformed inputs were taken as good"
    return num_taken


def judge(read: Callable[[], object], data: object) -> str | None:
    """The line with which an input is refused, None if it is taken. AssertionError for anything else."""
    try:
        with alarm():
            read()
    except InputError as error:
        line = " ".join(str(error).split())  # as the command line prints it
        assert line.isprintable(), f"{line!r} cannot be printed, for {_shown(data)}"
        assert len(line) <= LONGEST_LINE, f"{len(line)} characters, for {_shown(data)}: {line[:200]}"
        return line
    except BaseException as error:
        raise AssertionError(f"{type(error).__name__}: {error} for {_shown(data)}") from error
    return None


def _shown(data: object) -> str:
    text = repr(data)
    return text if len(text) < 3000 else f"{text[:2000]} ... {text[-900:]}"


class TooSlow(BaseException):
    """Nobody catches it by accident, as TimeoutError, which is an OSError."""


@contextmanager
def alarm() -> Generator[None]:
    """TooSlow after `MOST_SECONDS` of computing, however busy the machine is."""

    def ring(*_: object) -> None:
        raise TooSlow(f"takes more than {MOST_SECONDS} s")

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@contextmanager
def limits(num_bytes: int = MOST_BYTES) -> Generator[None]:
    """MemoryError for whoever wants more than `num_bytes` beyond what the process has now."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + num_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
