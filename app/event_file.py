"""Event logs read back: the JSON Lines that `--events` and `--out` write, checked as they are folded.

Nothing else is needed to replay them. The size of a block follows from the log itself: what the tables list
is what the ledger says is held.
"""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import orjson

from app.recorded import UNKNOWN, Recording
from sim import InputError, Request
from sim.alloc import ALLOCATORS
from sim.events import Event, Kind
from sim.ledger import CLASSES
from sim.state import State
from sim.tables import SlotRange

HEAD = ("kind", "step", "time", "request", "why")
# What changed, by the form of its value. Other names are nobody's business here.
COUNTS = (
    "accepted", "batch", "destination", "drafts", "emitted", "hit", "max_tokens", "parent", "place", "prompt",
    "reserved", "running", "sequence", "source", "stored", "swapped", "tokens", "waiting", "width",
)  # fmt: skip
LISTS = (
    "blocks", "cached", "destination_blocks", "destination_slots", "host_blocks", "places", "positions",
    "shared", "slots", "source_blocks", "source_slots",
)  # fmt: skip
SOURCES = ("simulated", "measured")
QUIET = (Kind.ARRIVE, Kind.PREFILL, Kind.DECODE, Kind.STEP)  # they change no table
BROKEN = (KeyError, ValueError, TypeError, IndexError, AttributeError, AssertionError)


def read_recording(path: Path, *, most_events: int) -> Recording:
    """The run that a log tells of. Raises InputError, with file and line, for anything else.

    The name of the file says who made it: `events.paged-measured.jsonl`, or `events.max.jsonl`.
    """
    try:
        with path.open("rb") as lines:
            events = list(_events(path, lines, most_events))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    fold = _Fold(path)
    for line, event in enumerate(events, start=1):
        fold.take(line, event)
    if not fold.num_steps:
        raise InputError(f"{path}: no step in it: there is nothing to replay")
    allocator, source = _made_by(path)
    return Recording(
        trace=path.name,
        requests=fold.requests(),
        events=events,
        allocator=allocator,
        cell_slots=fold.cell_slots,
        source=source,
        clock="as recorded",
    )


def _made_by(path: Path) -> tuple[str, str]:
    """Allocator and source, as far as the name of the file tells."""
    name, _, source = path.stem.rpartition(".")[2].partition("-")
    allocator = name if name.partition(".")[0] in ALLOCATORS else UNKNOWN
    return allocator, source if source in SOURCES else UNKNOWN


def _events(path: Path, lines: Iterable[bytes], most_events: int) -> Iterable[Event]:
    for number, line in enumerate(lines, start=1):
        if number > most_events:
            raise InputError(f"{path}: more than {most_events:,} events: take fewer requests")
        yield _event(f"{path}, line {number}", line)


def _event(where: str, line: bytes) -> Event:
    try:
        loaded = orjson.loads(line)
    except orjson.JSONDecodeError:
        raise InputError(f"{where}: is no JSON; an event log has one JSON object a line") from None
    row = cast(dict[str, Any], loaded) if isinstance(loaded, dict) else {}
    if missing := [name for name in HEAD if name not in row]:
        raise InputError(f"{where}: no event: {', '.join(missing)} missing; `--events` writes event logs")
    kind, step, time, request, why = (row.pop(name) for name in HEAD)
    if kind not in list(Kind):
        raise InputError(f"{where}: kind {kind!r}: known are {', '.join(Kind)}")
    is_number = isinstance(time, int | float) and not isinstance(time, bool) and time >= 0
    if type(step) is not int or not is_number or not isinstance(why, str):
        raise InputError(f"{where}: step must be an integer, time a number of seconds, why a text")
    if not isinstance(request, str) and (request is not None or kind != Kind.STEP):
        raise InputError(f"{where}: request {request!r}: must be the id of one")
    for name, value in row.items():
        if not _is_right(name, value):
            raise InputError(
                f"{where}: {name} of {kind}: {str(value)[:40]!r} is not what `--events` writes there"
            )
    return Event(Kind(kind), step, float(time), request, row, why)


def _is_right(name: str, value: Any) -> bool:
    """Whether a value has the form that its name wants."""
    if name in COUNTS:
        return type(value) is int
    if name in LISTS:
        return isinstance(value, list) and all(type(one) is int for one in cast("list[Any]", value))
    if name == "ledger":
        return isinstance(value, dict) and all(
            type(one) is int for one in cast("dict[str, Any]", value).values()
        )
    if name == "duration":
        return type(value) in (int, float)
    return name != "mode" or isinstance(value, str)


class _Fold:
    """The log folded event by event; each must follow from those before it."""

    def __init__(self, path: Path) -> None:
        self.num_steps = self.cell_slots = 0
        self._path = path
        self._state = State()
        self._before: Event | None = None
        self._pool: int = 0
        self._is_changed = True
        self._arrived: dict[str, Request] = {}
        self._emitted: dict[str, int] = {}

    def take(self, line: int, event: Event) -> None:
        where = f"{self._path}, line {line}"
        if self._before and (event.time, event.step) < (self._before.time, self._before.step):
            before = f"{self._before.time} s, step {self._before.step}"
            raise InputError(f"{where}: {event.time} s, step {event.step} comes after {before}")
        self._before = event
        try:
            self._apply(event)
        except InputError as error:
            raise InputError(f"{where}: {error}") from None
        except BROKEN as error:
            what = f"{event.kind} of {event.request}" if event.request else event.kind
            lacks = f" (it lacks {error})" if isinstance(error, KeyError) else ""
            raise InputError(f"{where}: {what} does not follow from what came before{lacks}") from None

    def _apply(self, event: Event) -> None:
        changes = event.changes
        if event.request is not None and event.kind is not Kind.ARRIVE and event.request not in self._arrived:
            raise InputError(f"{event.request} has not arrived")
        if event.kind is Kind.ARRIVE:
            self._arrive(event)
        if event.kind in (Kind.PREFILL, Kind.DECODE) and event.request:
            self._emitted[event.request] = max(self._emitted.get(event.request, 0), changes["emitted"])
        if "places" in changes or -1 in changes.get("blocks", ()):
            raise InputError(
                "tokens are dropped, and a log does not say which ones of a block: play the run itself"
            )
        self._state.apply(event)
        self._is_changed |= event.kind not in QUIET
        if event.kind is Kind.STEP:
            self._check(changes)

    def _arrive(self, event: Event) -> None:
        name, changes = event.request or "", event.changes
        if name in self._arrived:
            raise InputError(f"{name} has arrived already")
        prompt, most, width = changes["prompt"], changes["max_tokens"], changes.get("width", 1)
        if not all(type(value) is int and value > 0 for value in (prompt, most, width)):
            raise InputError("prompt and max_tokens must be positive integers")
        self._arrived[name] = Request(
            id=name, arrival_s=event.time, prompt=prompt, output=most, max_tokens=most, n=width
        )

    def _check(self, changes: dict[str, Any]) -> None:
        """The ledger adds up, and says of tables what they say themselves."""
        ledger = changes["ledger"]
        counts = [ledger[name] for name in CLASSES]
        numbers = [
            *counts,
            *(changes[name] for name in ("duration", "batch", "tokens", "running", "waiting", "swapped")),
        ]
        if any(value < 0 for value in numbers):
            raise InputError("a step cannot count less than nothing")
        if sum(counts) != ledger["pool"] or ledger["pool"] != (self._pool or ledger["pool"]):
            raise InputError(
                f"the ledger counts {sum(counts)} slots of a pool of {self._pool or ledger['pool']}"
            )
        self._pool = ledger["pool"]
        self.num_steps += 1
        if not self._is_changed:
            return
        self._is_changed = False
        held = ledger["pool"] - ledger["free"] - ledger["external"] - ledger["cached"]
        ranges = [one for one in self._state.block_tables.values() if isinstance(one, SlotRange)]
        listed, unit = sum(one.length for one in ranges), "slots"
        if not ranges and (blocks := len(self._state.ref_counts())):
            self.cell_slots = self.cell_slots or held // blocks
            listed, unit = blocks * self.cell_slots, f"slots in blocks of {self.cell_slots}"
        if listed != held:
            raise InputError(f"the tables list {listed} {unit}, the ledger holds {held}")

    def requests(self) -> tuple[Request, ...]:
        """All that arrived. Of those that finished the output is what they emitted."""
        finished = {one.id for one in self._arrived.values()} - {
            *self._state.running,
            *self._state.waiting,
            *self._state.swapped,
        }
        return tuple(
            replace(one, output=self._emitted[one.id])
            if one.id in finished and one.id in self._emitted
            else one
            for one in self._arrived.values()
        )
