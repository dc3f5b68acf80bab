"""Work handed to a Dask cluster: one that runs somewhere, or one started here."""

# Dask types its own functions only in part
# pyright: basic

import logging
from collections.abc import Callable, Generator
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import contextmanager
from typing import Any

from sim import InputError, __version__

# Run by each local worker, the replaced ones too: a Ctrl-C is for the one who sweeps.
IGNORE_CTRL_C = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
WAIT_S = 20  # for a scheduler to answer, and for the first worker


@contextmanager
def dask_cluster(scheduler: str | None, num_workers: int | None) -> Generator[Callable[[], Executor]]:
    """Yields what gives an executor on the cluster at `scheduler`, or on a local one of `num_workers`.

    Raises InputError where dask.distributed is not installed, nobody answers, or a worker lacks this pagelab.
    """
    try:
        from distributed import LocalCluster as Cluster
    except ImportError:
        raise InputError(
            "--scheduler and --workers need dask.distributed; install it with: pip install 'pagelab[dask]'"
        ) from None
    _silence()
    local: Any = Cluster
    if scheduler is not None:
        with _connect(scheduler) as client:
            yield lambda: ClusterExecutor(client)
        return
    with (
        local(
            n_workers=num_workers,
            threads_per_worker=1,
            dashboard_address=None,
            preload=IGNORE_CTRL_C,
            silence_logs=logging.CRITICAL,
        ) as cluster,
        _connect(cluster) as client,
    ):
        yield lambda: ClusterExecutor(client)


def _silence() -> None:
    """What goes wrong, we say in one line. Some loggers of Dask, and under it, have a level of their own."""
    noisy = {"distributed", "tornado", "asyncio"}
    for name in [*noisy, *logging.root.manager.loggerDict]:
        if name.partition(".")[0] in noisy:
            logging.getLogger(name).setLevel(logging.CRITICAL)


class ClusterExecutor(Executor):
    """Dask's own executor, which keeps to the letter of `Executor` also when the cluster is gone."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._executor = client.get_executor()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Raises BrokenExecutor when the scheduler is gone."""
        if self._client.status != "running":
            raise BrokenExecutor("the Dask scheduler is gone")
        return self._executor.submit(fn, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Without `wait` Dask cancels what it has not begun, `cancel_futures` or not."""
        if self._client.status == "running":
            self._executor.shutdown(wait=wait)


def _connect(where: Any) -> Any:
    from distributed import Client

    try:
        client = Client(where, timeout=WAIT_S)
    except (OSError, ValueError) as error:
        raise InputError(
            f"--scheduler {where}: {error}; start one with `dask scheduler`, and give the address it prints"
        ) from error
    try:
        _check_workers(client)
    except BaseException:
        client.close()
        raise
    return client


def _check_workers(client: Any) -> None:
    try:
        client.wait_for_workers(1, timeout=WAIT_S)
    except TimeoutError:
        raise InputError(
            f"the cluster has no worker after {WAIT_S} s; start some with `dask worker ADDRESS`"
        ) from None
    try:
        versions: Any = client.run(_version)
    except ModuleNotFoundError as error:
        raise InputError(f"a worker of the cluster: {error}; install pagelab {__version__} there") from None
    others = {worker: version for worker, version in versions.items() if version != __version__}
    if others:
        worker, version = next(iter(others.items()))
        raise InputError(f"worker {worker} has pagelab {version}, here is {__version__}: install the same")


def _version() -> str:
    from sim import __version__ as theirs

    return theirs
