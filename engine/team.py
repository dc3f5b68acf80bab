"""Threads for compiled loops that release the GIL: the caller works, and others help it."""

import os
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache

import torch

_size: ContextVar[int | None] = ContextVar("size", default=None)


def team_size() -> int:
    """On how many threads compiled loops work: as many as torch uses, unless it gives way."""
    return _size.get() or torch.get_num_threads()


@contextmanager
def torch_gives_way(size: int) -> Generator[None]:
    """Inside, compiled loops work on `size` threads, and torch on the caller's alone.

    Threads of torch wait for their next operation in a busy loop, for milliseconds: on as many cores as there
    are threads, ours would wait for theirs.
    """
    before = torch.get_num_threads()
    token = _size.set(size)
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
        _size.reset(token)


def together(work: Callable[[], None]) -> None:
    """Calls `work` on `team_size()` threads at the same time; who comes too late is not waited for.

    `work` takes its share from what all of them see, piece by piece, until nothing is left.
    """
    num_helpers = team_size() - 1
    helping = [_helpers(num_helpers).submit(work) for _ in range(num_helpers)]
    work()
    for future in helping:
        if not future.cancel():
            future.result()


@cache
def _helpers(num_threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(num_threads, thread_name_prefix="loops")


if hasattr(os, "register_at_fork"):  # a forked child has no threads
    os.register_at_fork(after_in_child=_helpers.cache_clear)
