"""The default executor: a pool of processes that leaves nobody behind, however its owner ends."""

import os
import signal
import threading
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection


class ProcessPool(ProcessPoolExecutor):
    """Workers on a leash: they go when it is let go, or when the process that holds it ends (SIGKILL too)."""

    def __init__(self, num_workers: int) -> None:
        leash, self._held = Pipe(duplex=False)
        super().__init__(num_workers, get_context("spawn"), initializer=_follow, initargs=(leash,))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Without `wait`, what is running is given up at once."""
        if not wait:
            self._held.close()
        super().shutdown(wait, cancel_futures=cancel_futures)


def _follow(leash: Connection) -> None:
    """A worker begins. A Ctrl-C is not for it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_go_with, args=(leash,), daemon=True).start()


def _go_with(leash: Connection) -> None:
    try:
        leash.recv()  # never comes
    except EOFError:
        os._exit(1)
