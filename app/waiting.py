"""Progress over things that end one by one, with an estimate of the time left."""

import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import timedelta

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

LINE_EVERY_S = 10


@contextmanager
def waiting(what: str, total: int, *, already: int = 0, shown: bool = True) -> Generator[Callable[[], None]]:
    """On standard error: a bar on a terminal, elsewhere a line now and then. Yields what says "one more".

    The time left is what the rest takes at the pace since this began; `already` ended before.
    """
    if not shown:
        yield lambda: None
    elif sys.stderr.isatty():
        columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True)) as bar:
            task = bar.add_task(what, total=total, completed=already)
            yield lambda: bar.advance(task)
    else:
        lines = Lines(what, total, already)
        yield lambda: lines.reach(lines.ended + 1)


class Lines:
    """Progress for a log file: a line now and then. `total` may be unknown."""

    def __init__(self, what: str, total: int | None, already: int = 0) -> None:
        self.ended = already
        self._what, self._total, self._already = what, total, already
        self._start_s = self._last_s = time.monotonic()

    def reach(self, ended: int) -> None:
        """So many have ended."""
        self.ended = ended
        now_s = time.monotonic()
        if now_s - self._last_s < LINE_EVERY_S or ended == self._already:
            return
        self._last_s = now_s
        pace_s = (now_s - self._start_s) / (ended - self._already)
        if self._total is None:
            rest = f"{1 / pace_s:,.0f} a second"
        else:
            left = timedelta(seconds=round(pace_s * (self._total - ended)))
            rest = f"of {self._total:,}, about {left} left"
        print(f"{self._what}: {ended:,} {rest}", file=sys.stderr, flush=True)
