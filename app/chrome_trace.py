"""The event log as a Chrome trace, which Perfetto (https://ui.perfetto.dev) and chrome://tracing open.

One process a server, one thread a request:

    X   queue, prefill, decode, swapped      spans of a request's life
    i   what happened to it, with its `why`
    C   ledger: slots by class; queues: requests by where they are, one sample a step
    M   names

Times are microseconds. Format: "Trace Event Format", Google, 2016.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, BinaryIO

import orjson

from sim.events import Event, Kind
from sim.ledger import CLASSES
from sim.request import Sequence

QUEUE, PREFILL, DECODE, SWAPPED = "queue", "prefill", "decode", "swapped"
SILENT = (Kind.ARRIVE, Kind.ALLOC, Kind.FREE, Kind.PREFILL, Kind.DECODE, Kind.STEP)  # no instant of their own
MICROSECONDS = 1e6
Json = dict[str, Any]


@dataclass(slots=True)
class Life:
    """Where a request is, since when, and how much of its prefill is still to come."""

    thread: int
    phase: str
    since: float  # microseconds
    num_pending: int = 0


class ChromeTrace:
    """A sink that keeps the spans, instants and counters of one server; of decodes it keeps nothing.

    `process` tells servers in one file apart.
    """

    def __init__(self, name: str, process: int = 1) -> None:
        self.step = 0
        self.time = 0.0
        self._process = process
        self._lives: dict[str, Life] = {}
        self._names = [self._named("process_name", 0, name)]
        self._events: list[Json] = []

    def emit(self, kind: Kind, request: str | None, why: str, **changes: Any) -> None:
        now = self.time * MICROSECONDS
        if kind is Kind.STEP:
            self._count("ledger", now, {name: changes["ledger"][name] for name in CLASSES})
            self._count("queues", now, {name: changes[name] for name in ("running", "waiting", "swapped")})
            return
        if request is None:  # a pool's own event: it has no track
            return
        if kind is Kind.ARRIVE:
            self._arrive(request, now)
        life = self._lives[request]
        if kind not in SILENT:
            instant = {"name": kind.value, "ph": "i", "s": "t", "ts": now, "tid": life.thread}
            self._add(instant, {"why": why, "step": self.step})
        self._follow(life, kind, changes, now)

    def decodes(self, sequences: list[Sequence], stored: list[int], emitted: list[int]) -> None:
        """A decode lies in the span that its request's last prefill began."""

    def events(self) -> list[Json]:
        """All of them by time, names first; spans that are open end now."""
        now = self.time * MICROSECONDS
        spans = [self._span(life, now) for life in self._lives.values() if life.phase]
        return self._names + sorted([*self._events, *spans], key=lambda event: event["ts"])

    def _arrive(self, request: str, now: float) -> None:
        thread = len(self._lives) + 1
        self._lives[request] = Life(thread, QUEUE, now)
        self._names.append(self._named("thread_name", thread, request))
        self._names.append(self._named("thread_sort_index", thread, thread))

    def _follow(self, life: Life, kind: Kind, changes: Json, now: float) -> None:
        match kind:
            case Kind.ADMIT:
                life.num_pending = changes["tokens"]
                self._enter(life, PREFILL, now)
            case Kind.PREFILL:
                life.num_pending -= changes["tokens"]
                if life.num_pending <= 0 and life.phase == PREFILL:
                    self._enter(life, DECODE, now)
            case Kind.PREEMPT:
                self._enter(life, SWAPPED if changes["mode"] == "swap" else QUEUE, now)
            case Kind.SWAP_IN:
                self._enter(life, PREFILL if life.num_pending > 0 else DECODE, now)
            case Kind.FINISH | Kind.REJECT:
                self._enter(life, "", now)
            case _:
                pass

    def _enter(self, life: Life, phase: str, now: float) -> None:
        self._events.append(self._span(life, now))
        life.phase, life.since = phase, now

    def _span(self, life: Life, now: float) -> Json:
        span = {"name": life.phase, "cat": "request", "ph": "X", "ts": life.since, "dur": now - life.since}
        return {**span, "pid": self._process, "tid": life.thread}

    def _count(self, name: str, now: float, values: dict[str, int]) -> None:
        self._add({"name": name, "ph": "C", "ts": now, "tid": 0}, values)

    def _add(self, event: Json, args: Json) -> None:
        self._events.append({**event, "pid": self._process, "args": args})

    def _named(self, what: str, thread: int, name: str | int) -> Json:
        key = "sort_index" if what.endswith("sort_index") else "name"
        return {"name": what, "ph": "M", "ts": 0, "pid": self._process, "tid": thread, "args": {key: name}}


def chrome_trace_of(events: Iterable[Event], name: str, process: int = 1) -> ChromeTrace:
    """The Chrome trace of a log that was kept."""
    trace = ChromeTrace(name, process)
    for event in events:
        trace.step, trace.time = event.step, event.time
        trace.emit(event.kind, event.request, event.why, **event.changes)
    return trace


def write_chrome_trace(traces: Iterable[ChromeTrace], out: BinaryIO) -> None:
    """One JSON document: all servers side by side on one clock."""
    events = [event for trace in traces for event in trace.events()]
    events.sort(key=lambda event: (event["ph"] != "M", event["ts"]))
    out.write(orjson.dumps({"displayTimeUnit": "ms", "traceEvents": events}))
