"""Waiting for what another process does."""

import time
from collections.abc import Callable
from typing import Any


def wait_for(
    condition: Callable[[], Any],
    what: str = "something",
    seconds: float = 20.0,
    *,
    also: Callable[[], str] = str,
) -> Any:
    """The first true value of `condition`; AssertionError, with what `also` says, when time is up."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if value := condition():
            return value
        time.sleep(0.05)
    raise AssertionError(f"waited {seconds:g} s for {what}{also()}")
