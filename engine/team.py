"""Threads for compiled loops that release the GIL: the caller works, and others help it."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import torch


def together(work: Callable[[], None]) -> None:
    """Calls `work` on as many threads as torch uses, at the same time; who comes too late is not waited for.

    `work` takes its share from what all of them see, piece by piece, until nothing is left.
    """
    num_helpers = torch.get_num_threads() - 1
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
