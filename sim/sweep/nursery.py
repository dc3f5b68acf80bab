"""Each configuration in a process of its own, so that whatever becomes of it becomes of nothing else.

    worker  -- a configuration a line -->  nursery  -- fork -->  child, which simulates
            <-- a row a line ------------           <-- row ---  and exits

The nursery reads the trace, once for all configurations in turn that want the same, and its children share
the pages. It lives as long as its worker: when its standard input ends it goes, and its child with it.

    python -m sim.sweep.nursery        # started by `sim.sweep.alone`
"""

import os
import resource
import select
import signal
import sys
import threading
from typing import Any, BinaryIO

import orjson

from sim.errors import InputError
from sim.sweep.plan import Configuration
from sim.sweep.work import CRASHED, OUT_OF_MEMORY, REFUSED, Row, choice_of, read_trace, work
from sim.trace import Trace

MAX_ROW_BYTES = 1 << 20


class Nursery:
    """Takes one configuration at a time."""

    def __init__(self, orders: BinaryIO) -> None:
        self._orders = orders
        self._known: tuple[Any, Trace] | None = None  # what the last trace was read from, and that trace
        self._own_bytes = virtual_bytes() if sys.platform == "linux" else 0  # without trace and run

    def row_of(self, configuration: Configuration, limit_bytes: int | None) -> Row:
        """What became of it. The limit counts the trace and the run, not Python and its libraries."""
        try:
            limit_memory(None if limit_bytes is None else self._own_bytes + limit_bytes)
            trace = self._trace(configuration)
            return self._raise_child(configuration, trace, limit_bytes)
        except MemoryError:
            return out_of_memory(limit_bytes)
        except (InputError, TypeError) as error:  # TypeError: a dial of the trace that is of another type
            return {"status": REFUSED, "why": str(error)}
        finally:
            limit_memory(None)

    def _trace(self, configuration: Configuration) -> Trace:
        source = (choice_of(configuration), configuration.get("seed", 0))
        if self._known is None or self._known[0] != source:
            self._known = None  # never two at once
            self._known = (source, read_trace(configuration))
        return self._known[1]

    def _raise_child(self, configuration: Configuration, trace: Trace, limit_bytes: int | None) -> Row:
        out, into = os.pipe()
        leash, held = os.pipe()
        child = os.fork()
        if not child:
            os.close(out)
            os.close(held)
            live(configuration, trace, limit_bytes, into, leash)
        os.close(into)
        os.close(leash)
        with os.fdopen(out, "rb", buffering=0) as rows:
            text = self._listen(rows)
        os.close(held)
        _, status = os.waitpid(child, 0)
        return orjson.loads(text) if text else {"status": CRASHED, "why": how_it_ended(status)}

    def _listen(self, rows: BinaryIO) -> bytes:
        """The child's row, whole or empty. Meanwhile the worker has nothing to say but that it is gone."""
        text = b""
        while not text.endswith(b"\n"):
            ready, _, _ = select.select([rows, self._orders], [], [])
            if self._orders in ready:
                sys.exit(1)  # which lets go of the child's leash
            part = rows.read(MAX_ROW_BYTES)
            if not part:
                return b""  # torn: it died while it wrote
            text += part
        return text


def live(configuration: Configuration, trace: Trace, limit_bytes: int | None, into: int, leash: int) -> None:
    """A child's whole life: it writes its row `into` a pipe and exits, or dies; at once without a nursery."""
    try:
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):  # the nursery's own; why the child died stands in its row
            os.dup2(nothing, stream)
        threading.Thread(target=go_with, args=(leash,), daemon=True).start()
        row = life(configuration, trace, limit_bytes)
        with os.fdopen(into, "wb") as out:
            out.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
    finally:
        os._exit(0)


def go_with(leash: int) -> None:
    """Ends this process when the other end of a pipe is closed, be it by a SIGKILL."""
    os.read(leash, 1)
    os._exit(1)


def life(configuration: Configuration, trace: Trace, limit_bytes: int | None) -> Row:
    """Its row, also where a fault of ours ends it."""
    try:
        return work(configuration, trace)
    except MemoryError:
        return out_of_memory(limit_bytes)
    except Exception as error:  # noqa: BLE001  any fault there may be is this configuration's row
        return {"status": CRASHED, "why": f"{type(error).__name__}: {error}"}


def out_of_memory(limit_bytes: int | None) -> Row:
    """The row of one that asked for more than there is, or than it was allowed."""
    limit = "there is" if limit_bytes is None else f"its limit of {limit_bytes} bytes"
    return {"status": OUT_OF_MEMORY, "why": f"needs more memory than {limit}"}


def how_it_ended(status: int) -> str:
    """In words, for a child that left no row; `status` is that of `os.waitpid`."""
    if not os.WIFSIGNALED(status):
        return f"exited with code {os.waitstatus_to_exitcode(status)} before its row was written"
    name = signal.Signals(os.WTERMSIG(status)).name
    hint = ": by hand, or because the machine ran out of memory" if name == "SIGKILL" else ""
    return f"killed by {name}{hint}"


def limit_memory(num_bytes: int | None) -> None:
    """What this process, and what it forks, may map from now on; None takes the limit away again."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (hard if num_bytes is None else num_bytes, hard))


def virtual_bytes() -> int:
    """What this process has mapped so far."""
    with open("/proc/self/statm", encoding="ascii") as counts:
        return int(counts.read().split()[0]) * resource.getpagesize()


def main() -> None:
    """Serves its worker until that goes, be it while its answer is written."""
    orders = sys.stdin.buffer
    nursery = Nursery(orders)
    for line in iter(orders.readline, b""):
        order = orjson.loads(line)
        row = nursery.row_of(order["configuration"], order["limit_bytes"])
        try:
            sys.stdout.buffer.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            os._exit(1)  # at once: an orderly exit would try to flush it again, and complain


if __name__ == "__main__":
    main()
