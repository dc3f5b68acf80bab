"""The playground's replay, made once for all visitors. Its verdict takes no events: that is said at once."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson
import streamlit as st

from app.look import say
from app.payload import replay_payload, verdict
from app.recorded import Recording, recording_of
from sim import Config, Run, Trace, simulate

Sides = tuple[Config, ...]
Tell = Callable[[float, str], None]  # how far it is, from 0 to 1, and what is being done


def replay_of(trace: Trace, sides: Sides) -> dict[str, Any]:
    """The replay of `trace` on all sides. While it is made, the verdict and a bar stand in its place.

    Raises InputError where a side cannot serve the trace, or not be drawn.
    """
    key = key_of(trace, sides)
    shelf, waiting = _shelf(key), st.empty()
    if not shelf:
        with waiting.container():
            if sentence := first_verdict(trace, sides):
                say(sentence)
            bar = st.progress(0.0)
            try:
                shelf.append(orjson.dumps(make(trace, sides, lambda share, what: _show(bar, share, what))))
            finally:
                waiting.empty()
    return {"id": key, **orjson.loads(shelf[0])}


def key_of(trace: Trace, sides: Sides) -> str:
    """A name for what is shown: the same for equal requests and equal dials."""
    return hashlib.sha256(repr((trace.name, trace.requests, sides)).encode()).hexdigest()[:16]


@st.cache_resource(max_entries=16, show_spinner=False)
def _shelf(key: str) -> list[bytes]:
    """Where the replay called `key` is kept: empty until it is made."""
    return []


def _show(bar: Any, share: float, what: str) -> None:
    bar.progress(share, text=what)


def first_verdict(trace: Trace, sides: Sides) -> str | None:
    """What the replay will say first; None where a side serves nothing."""
    runs = [simulate(trace, config, record=False) for config in sides]
    return verdict([Unrecorded.of(run) for run in runs]) if all(run.num_steps for run in runs) else None


@dataclass(frozen=True, kw_only=True)
class Unrecorded(Recording):
    """A run that kept no events: its series has the numbers that a verdict asks for."""

    run: Run

    @classmethod
    def of(cls, run: Run) -> "Unrecorded":
        """The run as a recording without a log."""
        return cls(run=run, **vars(recording_of(run)))

    @property
    def time_s(self) -> float:
        return self.run.time_s

    @property
    def batch_mean(self) -> float:
        return self.run.mean("batch")

    def mean(self, name: str) -> float:
        return self.run.mean(name)


def make(trace: Trace, sides: Sides, tell: Tell) -> dict[str, Any]:
    """Serves the trace again, event by event, and draws every moment: the longest part, as one more side."""
    runs: list[Run] = []
    for place, config in enumerate(sides):
        progress = Progress(trace.num_requests, place, len(sides) + 1, tell)
        runs.append(simulate(trace, config, on_progress=progress))
    tell(len(sides) / (len(sides) + 1), "drawing every moment")
    return replay_payload(runs, seed=sides[0].seed)


class Progress:
    """Hears how many requests have ended on the side at `place`, and tells whole percents of that."""

    def __init__(self, num_requests: int, place: int, num_parts: int, tell: Tell) -> None:
        self._num_requests, self._place, self._num_parts = num_requests, place, num_parts
        self._tell = tell
        self._told = -1

    def __call__(self, num_ended: int) -> None:
        percent = 100 * num_ended // self._num_requests
        if percent == self._told:
            return
        self._told = percent
        side = "ABCDEFGH"[self._place]
        share = (self._place + num_ended / self._num_requests) / self._num_parts
        self._tell(share, f"side {side}, event by event: {num_ended:,} of {self._num_requests:,} requests")
