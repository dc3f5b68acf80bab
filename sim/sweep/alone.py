"""How a worker, in whatever executor, has a configuration run in a process of its own."""

import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import orjson

from sim.sweep.plan import Configuration
from sim.sweep.work import Row

ROOT = Path(__file__).parents[2]  # where `sim` is imported from, here and there


class NurseryGone(RuntimeError):
    """The nursery ended before it answered: somebody killed it, or the machine ran out of memory."""


class NurseryProcess:
    """A nursery (`sim.sweep.nursery`) that ends when nobody refers to it any more.

    It has a session of its own: a Ctrl-C is for the one who sweeps, who then lets go of all others.
    """

    def __init__(self) -> None:
        paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "sim.sweep.nursery"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "OMP_NUM_THREADS": "1"},
            start_new_session=True,
        )
        assert self._process.stdin and self._process.stdout
        self._orders, self._rows = self._process.stdin, self._process.stdout

    def row_of(self, order: bytes) -> bytes:
        """The answer to one line of JSON, another. Raises NurseryGone."""
        try:
            self._orders.write(order)
            self._orders.flush()
            answer = self._rows.readline()
        except BrokenPipeError:
            answer = b""
        if not answer.endswith(b"\n"):
            self._process.kill()
            raise NurseryGone(f"the process that runs configurations ended with code {self._process.wait()}")
        return answer

    def __del__(self) -> None:
        self._rows.close()
        with suppress(BrokenPipeError):  # it has gone already
            self._orders.close()
        self._process.wait()


class _OfThread(threading.local):
    nursery: NurseryProcess | None = None  # kept from configuration to configuration


_of_thread = _OfThread()


def work_alone(configuration: Configuration, limit_bytes: int | None = None) -> Row:
    """`work` in a child process that may use `limit_bytes` beyond what Python itself takes.

    Returns a row whatever becomes of the child. Raises NurseryGone when what raises the children was killed;
    then the same may be asked again.
    """
    nursery = _of_thread.nursery or NurseryProcess()
    _of_thread.nursery = None
    order = orjson.dumps(
        {"configuration": configuration, "limit_bytes": limit_bytes}, option=orjson.OPT_APPEND_NEWLINE
    )
    row = orjson.loads(nursery.row_of(order))
    _of_thread.nursery = nursery  # one that answered is well
    return row
