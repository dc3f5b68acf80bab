"""Hands out what is not done yet, and writes each row as it comes."""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from functools import partial
from queue import SimpleQueue

from sim.sweep.alone import work_alone
from sim.sweep.plan import Configuration
from sim.sweep.store import Store
from sim.sweep.work import CRASHED, Row

MAX_ATTEMPTS = 3  # of one configuration whose worker was lost, and of executors in a row that do nothing

Work = Callable[..., Row]  # work(configuration, limit_bytes=...)
OnRow = Callable[[int, Row], None]


class SweepStopped(RuntimeError):
    """No executor works. All rows so far are stored; the same sweep, started again, goes on."""


def run_sweep(
    store: Store,
    make_executor: Callable[[], Executor],
    *,
    limit_bytes: int | None = None,
    on_row: OnRow | None = None,
    work: Work = work_alone,
) -> None:
    """Runs what `store` is missing on any `concurrent.futures.Executor`, in any order: the rows are the same.

    `work` never raises for a fault of a configuration, so an exception says that a worker was lost: then the
    configuration is handed out again, and recorded as crashed after `MAX_ATTEMPTS`. An executor that is
    broken is replaced by another from `make_executor`. Raises SweepStopped when that is of no use.
    """
    lost: Counter[int] = Counter()
    num_in_vain = 0
    while missing := store.missing():
        num_rows = len(missing)
        executor = make_executor()
        hand_out = partial(executor.submit, work, limit_bytes=limit_bytes)
        try:
            _run(store, missing, hand_out, lost, on_row)
        except (BrokenExecutor, CancelledError) as error:
            executor.shutdown(wait=False, cancel_futures=True)
            num_in_vain = 0 if len(store.missing()) < num_rows else num_in_vain + 1
            if num_in_vain == MAX_ATTEMPTS:
                raise SweepStopped(str(error) or type(error).__name__) from error
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            raise
        else:
            executor.shutdown()


def _run(
    store: Store,
    missing: dict[int, Configuration],
    hand_out: Callable[..., Future[Row]],
    lost: Counter[int],
    on_row: OnRow | None,
) -> None:
    """All of `missing` on one executor. Raises what says that it is broken."""
    ended: SimpleQueue[Future[Row]] = SimpleQueue()
    numbers: dict[Future[Row], int] = {}

    def start(number: int) -> None:
        future = hand_out(missing[number])
        numbers[future] = number
        future.add_done_callback(ended.put)

    for number in missing:
        start(number)
    while numbers:
        future = ended.get()
        number, error = numbers.pop(future), future.exception()
        if isinstance(error, BrokenExecutor):
            raise error
        if error is None:
            row = future.result()
        elif lost[number] < MAX_ATTEMPTS - 1:
            lost[number] += 1
            start(number)
            continue
        else:
            row = {"status": CRASHED, "why": f"its worker was lost {MAX_ATTEMPTS} times: {error}"}
        store.add(number, row)
        if on_row:
            on_row(number, row)
