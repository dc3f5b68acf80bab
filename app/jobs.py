"""A long piece of work that a visitor starts, watches and can stop, in a thread beside the page.

One at a time on the whole server, since two that measure at once would measure each other. Stopping is the
work's own: the next time it reports, it is told to end, so that what it holds is released in order. It also
ends when nobody has looked for a while, because the visitor has left.
"""

import sys
import threading
import time
from collections.abc import Callable
from enum import StrEnum
from typing import Generic, TypeVar

Result = TypeVar("Result")

FORGOTTEN_S = 30.0  # a page that is open looks every second
_TURN = threading.Lock()


class Stopped(Exception):
    """The visitor asked for it, or has left."""


class Phase(StrEnum):
    """Where a job is; the last three are for good."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"


class Job(Generic[Result]):
    """`work(report)` in a thread. `report(share, what)` tells how far it is; it raises `Stopped` to end it.

    `expected` are the errors that are meant for people: their text becomes `problem`. Any other error is a
    fault of ours; it is told by its type, and printed where the server runs.
    """

    def __init__(
        self,
        work: Callable[[Callable[[float, str], None]], Result],
        expected: tuple[type[Exception], ...] = (),
    ) -> None:
        self.phase = Phase.QUEUED
        self.share = 0.0
        self.what = "waiting for another visitor's run"
        self.problem = ""
        self.result: Result | None = None
        self._work, self._expected = work, expected
        self._is_asked_to_stop = threading.Event()
        self._looked = time.monotonic()
        self._thread = threading.Thread(target=self._run, daemon=True, name="pagelab-job")
        self._thread.start()

    @property
    def is_active(self) -> bool:
        """Whether there is still something to wait for. Asking counts as looking."""
        self._looked = time.monotonic()
        return self.phase in (Phase.QUEUED, Phase.RUNNING)

    def stop(self) -> None:
        """Ends the work at its next report. Does nothing to work that has ended."""
        self._is_asked_to_stop.set()

    def join(self, seconds: float) -> None:
        """Waits until the work has ended, so long at most."""
        self._thread.join(seconds)

    def report(self, share: float, what: str) -> None:
        """Takes down how far the work is, from 0 to 1. Raises `Stopped` when it is to end."""
        self._check()
        self.share, self.what = min(max(share, 0.0), 1.0), what

    def _check(self) -> None:
        if self._is_asked_to_stop.is_set() or time.monotonic() - self._looked > FORGOTTEN_S:
            raise Stopped

    def _run(self) -> None:
        try:
            while not _TURN.acquire(timeout=0.1):
                self._check()
            try:
                self._check()
                self.phase, self.what = Phase.RUNNING, "starting"
                self.result = self._work(self.report)
                self.phase = Phase.DONE
            finally:
                _TURN.release()
        except Stopped:
            self.phase = Phase.STOPPED
        except self._expected as error:
            self.problem, self.phase = str(error), Phase.FAILED
        finally:
            if self.phase in (
                Phase.QUEUED,
                Phase.RUNNING,
            ):  # an error for the log
                self.problem = f"a fault of ours, {type(sys.exception()).__name__}: the server's log has more"
                self.phase = Phase.FAILED
