"""Any executor gives the same rows, whatever becomes of it meanwhile."""

import multiprocessing
import random
import sys
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from types import ModuleType
from typing import Any

import psutil
import pytest

from sim.sweep import ProcessPool, SweepStopped, open_store, run_sweep, work_alone
from tests.sim.sweep.making import nurseries, rows_of, small_plan
from tests.waiting import wait_for

PLAN = small_plan()


def here(configuration: dict[str, Any], limit_bytes: int | None = None) -> dict[str, Any]:
    """Work in this process: quick, where processes are not the point."""
    (row,) = (row for one, row in zip(PLAN.configurations, ROWS, strict=True) if one == configuration)
    return row


ROWS = rows_of(PLAN)


class Shuffled(Executor):
    """Runs what was submitted in an order of its own, once somebody waits for it."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1)
        self._waiting: list[tuple[Future[Any], Callable[[], Any]]] = []

    def submit(self, fn, /, *args, **kwargs):
        future: Future[Any] = Future()
        self._waiting.append((future, lambda: fn(*args, **kwargs)))
        if len(self._waiting) == len(PLAN.configurations):
            random.Random(7).shuffle(self._waiting)
            self._pool.submit(lambda: [future.set_result(call()) for future, call in self._waiting])
        return future


def swept(tmp_path, make_executor: Callable[[], Executor], **options: Any) -> list[dict[str, Any]]:
    with open_store(tmp_path, PLAN) as store:
        run_sweep(store, make_executor, **options)
        return store.results()


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    with open_store(tmp_path_factory.mktemp("expected"), PLAN) as store:
        for number, row in enumerate(ROWS, start=1):
            store.add(number, row)
        return store.results()


def test_some_rows_are_done_and_one_is_refused(expected):
    assert [row["status"] for row in expected] == ["done"] * 6 + ["refused"]


def test_threads_give_the_same_rows(tmp_path, expected):
    assert swept(tmp_path, lambda: ThreadPoolExecutor(2), work=work_alone) == expected


def test_another_order_gives_the_same_rows(tmp_path, expected):
    assert swept(tmp_path, Shuffled, work=here) == expected


def test_a_worker_that_dies_is_replaced_and_every_row_is_there_once(tmp_path, expected):
    before = set(nurseries(psutil.Process()))
    with open_store(tmp_path, PLAN) as store:
        killed: list[int] = []

        def kill_a_worker(number: int, row: dict[str, Any]) -> None:
            if not killed:
                worker = multiprocessing.active_children()[0]
                worker.kill()
                worker.join()
                killed.append(number)

        run_sweep(store, lambda: ProcessPool(2), on_row=kill_a_worker)
        assert killed
        assert store.results() == expected
    wait_for(lambda: not set(nurseries(psutil.Process())) - before)


def test_workers_do_not_run_the_script_that_sweeps(tmp_path, expected, monkeypatch):
    """Else a page of the app would sweep in each of its workers, and a script without a guard for ever."""
    script = ModuleType("__main__")
    script.__file__ = str(tmp_path / "script.py")
    (tmp_path / "script.py").write_text("raise SystemExit('a worker ran the script')")
    monkeypatch.setitem(sys.modules, "__main__", script)
    assert swept(tmp_path, lambda: ProcessPool(2)) == expected
    assert sys.modules["__main__"] is script


class Unlucky(ThreadPoolExecutor):
    """Loses its worker the first few times."""

    def __init__(self, times: int, error: Exception) -> None:
        super().__init__(1)
        self.times, self.error = times, error

    def submit(self, fn, /, *args, **kwargs):
        if self.times:
            self.times -= 1
            failed: Future[Any] = Future()
            failed.set_exception(self.error)
            return failed
        return super().submit(fn, *args, **kwargs)


def test_a_configuration_whose_worker_is_lost_is_handed_out_again(tmp_path, expected):
    lost = RuntimeError("worker lost")
    assert swept(tmp_path, lambda: Unlucky(2, lost), work=here) == expected


def test_one_whose_worker_is_lost_each_time_is_recorded_and_the_rest_goes_on(tmp_path, expected):
    class Cursed(ThreadPoolExecutor):
        def submit(self, fn, /, *args, **kwargs):
            unlucky = args[0] == PLAN.configurations[2]
            return (
                Unlucky(1, RuntimeError("lost")).submit(fn)
                if unlucky
                else super().submit(fn, *args, **kwargs)
            )

    rows = swept(tmp_path, Cursed, work=here)
    assert rows[2]["status"] == "crashed"
    assert rows[2]["why"] == "its worker was lost 3 times: lost"
    assert rows[:2] + rows[3:] == expected[:2] + expected[3:]


def test_executors_that_all_break_end_the_sweep_and_what_is_stored_stays(tmp_path, expected):
    with open_store(tmp_path, PLAN) as store:
        store.add(1, ROWS[0])
        with pytest.raises(SweepStopped, match="no use"):
            run_sweep(store, lambda: Unlucky(99, BrokenExecutor("no use")), work=here)
        assert store.results() == expected[:1]
        run_sweep(store, lambda: ThreadPoolExecutor(1), work=here)
        assert store.results() == expected
