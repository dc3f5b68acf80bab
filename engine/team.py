"""Threads for compiled loops that release the GIL: the caller works, and others help it."""

import os
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

import numpy as np
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
    sent_away = [standby for standby in _standbys if standby.send_away()] if num_helpers else []
    helping = [_helpers(num_helpers).submit(work) for _ in range(num_helpers)]
    for standby in sent_away:  # who has done that work goes back, without falling asleep between
        standby.call_up()
    work()
    for future in helping:
        if not future.cancel():
            future.result()


class Standby:
    """Helpers who stay awake in a compiled loop, `wait(board, leave, patience)`, until `together` needs them.

    The loop ends by itself when it has looked at `board` in vain `patience` times, and as soon as the board's
    number LEAVE is another than `leave`, which it was when the helper was called up: one who is sent away
    before it has come leaves too. What else stands on the board is between the loop and who calls them up.
    """

    LEAVE = 0

    def __init__(self, wait: Callable[[Any, int, int], None], board_size: int, patience: int) -> None:
        self.board = np.zeros(board_size, np.int64)
        self._wait, self._patience = wait, patience
        self._standing: list[Future[None]] = []
        _standbys.append(self)

    def call_up(self) -> None:
        """As many as the team has helpers, of whom some may stand already. Does not wait for them."""
        num_helpers = team_size() - 1
        self._standing = [one for one in self._standing if not one.done()]
        given = self.board, int(self.board[self.LEAVE]), self._patience
        for _ in range(num_helpers - len(self._standing)):
            self._standing.append(_helpers(num_helpers).submit(self._wait, *given))

    def send_away(self) -> bool:
        """Tells all to leave, and not to come if they were on their way; whether anybody stood there."""
        standing, self._standing = self._standing, []
        if standing:
            self.board[self.LEAVE] += 1
        stood = [one for one in standing if not one.cancel() and not one.done()]
        return bool(stood)

    def forget(self) -> None:
        """Nobody is there, as after a fork."""
        self._standing = []
        self.board[:] = 0


_standbys: list[Standby] = []


def _forget_helpers() -> None:
    _helpers.cache_clear()
    for standby in _standbys:
        standby.forget()


@cache
def _helpers(num_threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(num_threads, thread_name_prefix="loops")


if hasattr(os, "register_at_fork"):  # a forked child has no threads
    os.register_at_fork(after_in_child=_forget_helpers)
