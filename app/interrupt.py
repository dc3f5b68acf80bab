"""Ctrl-C during a run: the step that is running ends, and what was done so far is a whole result."""

import signal
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

import click


class Interrupt:
    """Whether somebody has pressed Ctrl-C since `listening` began."""

    def __init__(self) -> None:
        self.came = False

    def __call__(self) -> bool:
        return self.came

    def press(self, signum: int, frame: FrameType | None) -> None:
        """The first is noted; a second one ends the program at once, as it would anywhere else."""
        if self.came:
            raise KeyboardInterrupt
        self.came = True

    def end(self, what: str) -> None:
        """Ends the command, with exit code 130, if Ctrl-C was pressed."""
        if self.came:
            raise click.Abort(f"interrupted: {what} up to there")


@contextmanager
def listening() -> Generator[Interrupt]:
    """Yields what a run may ask as its `is_over`."""
    interrupt = Interrupt()
    before = signal.signal(signal.SIGINT, interrupt.press)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, before)
