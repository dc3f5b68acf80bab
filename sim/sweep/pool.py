"""The default executor: a pool of processes that leaves nobody behind, however its owner ends."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection
from types import ModuleType
from typing import Any


class ProcessPool(ProcessPoolExecutor):
    """Workers on a leash: they go when it is let go, or when the process that holds it ends (SIGKILL too)."""

    def __init__(self, num_workers: int) -> None:
        leash, self._held = Pipe(duplex=False)
        super().__init__(num_workers, get_context("spawn"), initializer=_follow, initargs=(leash,))

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """As any executor's, for functions of an imported module: a worker never runs the caller's script."""
        with _no_script():
            return super().submit(fn, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Without `wait`, what is running is given up at once."""
        if not wait:
            self._held.close()
        super().shutdown(wait, cancel_futures=cancel_futures)


@contextmanager
def _no_script() -> Generator[None]:
    """Hides `__main__`, which a spawned process runs first.

    That may be a page of an app, a script without a guard, or a file that is gone.
    """
    script = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script


def _follow(leash: Connection) -> None:
    """A worker begins. A Ctrl-C is not for it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_go_with, args=(leash,), daemon=True).start()


def _go_with(leash: Connection) -> None:
    try:
        leash.recv()  # never comes
    except EOFError:
        os._exit(1)
