"""One recorded run as the frames that a player shows (`app.deltas` says what a frame is)."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from app.deltas import KEYFRAME_FRAMES, Delta, DeltaEncoder, before_decode
from app.quiz import Question
from app.recorded import Recording
from sim.events import Event, Kind
from sim.ledger import CLASSES
from sim.replay import State
from sim.tables import HOLE

INTERESTING = (
    Kind.REJECT, Kind.ADMIT, Kind.PREEMPT, Kind.SWAP_OUT, Kind.SWAP_IN,
    Kind.FORK, Kind.COPY, Kind.EVICT, Kind.MOVE, Kind.ROLLBACK, Kind.FINISH,
)  # fmt: skip
ALARMING = (Kind.PREEMPT, Kind.REJECT)
COLUMNS = ("step", "batch", "tokens", "running", "waiting", "swapped", *CLASSES)
QUEUEING = frozenset(
    {Kind.ARRIVE, Kind.REJECT, Kind.ADMIT, Kind.PREEMPT, Kind.SWAP_IN, Kind.FINISH}
)  # they change a queue
UNSAID = (Kind.DECODE, Kind.STEP)  # the frame's numbers say it already

Json = dict[str, Any]


def encode_side(
    recording: Recording, name: str, sheet: Sequence[Question] = ()
) -> tuple[Json, list[float], list[Json]]:
    """One run for the player, the time in seconds of each of its frames, and where each question stands.

    `cell_slots` is the size of a cell, 0 where each has its own. `columns` has a number for each frame;
    ledger classes that stay 0 are left out. `said` is what happened: [[kind, request, why, cells], ...] a
    frame; the cells it is about are left out where there are none. `marks` are frames worth stopping at,
    `alarms` those with a preemption or a rejection. What a stream cannot know is null in `summary`.
    """
    frames = _Frames(recording)
    state = State(time=recording.events[0].time)
    asked = {question.event: question for question in sheet}
    places: list[Json] = []
    frames.rest(state)
    for index, event in enumerate(recording.events):
        if event.time > state.time and event.kind is Kind.ARRIVE:  # nothing was to do until it came
            frames.rest(state)
        if event.kind is Kind.STEP:
            state.apply(event)
            frames.show(state, event)
        if index in asked:
            places.append(
                {**frames.place(event), **asdict(asked[index]), "choices": list(asked[index].choices)}
            )
        if event.kind is not Kind.STEP:
            frames.hear(state, event)
            state.apply(event)
    frames.rest(state)
    return {**recording.described(name), **frames.as_json()}, frames.times, places


class _Frames:
    """The frames of one run, in the making. `hear` every event, then `show` or `rest` makes a picture.

    What held at the last picture is noted when an event is about to change it, and no state is ever copied:
    most of what a large run holds stays as it is from step to step. Of a plain decode, which is most of a
    log, nothing need be noted: what held before it is one token less.
    """

    def __init__(self, recording: Recording) -> None:
        self.times: list[float] = []
        self._pool = recording.pool
        self._block_size = recording.cell_slots or 1
        self._encoder = DeltaEncoder(
            recording.requests,
            self._block_size,
            grows=not recording.cell_slots,
            has_pages=recording.has_pages,
            horizon=recording.horizon,
        )
        self._before = State()  # the queues, and what has changed since of those whom events were about
        self._is_queue_moved = False
        self._touched: dict[str, bool] = {}  # in the order of events: is one plain decode all there was?
        self._was_cached: dict[int, bool] = {}
        self._deltas: list[Delta] = []
        self._keyframes: list[Delta] = []
        self._said: list[list[list[Any]]] = []
        self._kinds: dict[int, set[Kind]] = defaultdict(set)
        self._columns: dict[str, list[int]] = {name: [] for name in COLUMNS}
        self._unsaid: list[list[Any]] = []
        self._unseen: set[Kind] = set()

    def hear(self, state: State, event: Event) -> None:
        """Takes note of an event that will change `state`.

        What happens after a step's picture is told with that step.
        """
        request = event.request
        if request is None:
            return
        if request not in self._touched and _is_plain_decode(state, event, request):
            self._touched[request] = True
            return
        self._note(state, event, request)
        if event.kind in UNSAID:
            return
        number, cells = self._encoder.numbers[request], _cells_of(event)
        line = [event.kind, number, event.why, *([cells] if cells else [])]
        is_epilogue = self._is_epilogue(event)
        (self._said[-1] if is_epilogue else self._unsaid).append(line)
        (self._kinds[len(self._said) - 1] if is_epilogue else self._unseen).add(event.kind)

    def _note(self, state: State, event: Event, request: str) -> None:
        """What holds before the event, where it is the first since the last picture to change that."""
        has_decoded = self._touched.get(request)
        self._touched[request] = False
        if has_decoded:
            before_decode(self._before, state, request)
        elif has_decoded is None:
            for name in state.names(request):
                if (table := state.block_tables.get(name)) is not None:
                    self._before.block_tables[name] = table
                if name in state.stored:
                    self._before.stored[name] = state.stored[name]
                    self._before.emitted[name] = state.emitted.get(name, 0)
        self._is_queue_moved |= event.kind in QUEUEING
        if event.kind is Kind.ADMIT:
            self._encoder.admit(request, event.changes["tokens"] + event.changes["hit"])
        if state.cached or "cached" in event.changes:
            for block in _cells_that_change(event):
                self._was_cached.setdefault(block, block in state.cached)

    def place(self, event: Event) -> Json:
        """Where a question before `event` stands (see the top); of a step's own event, after it."""
        last = len(self._said) - 1
        if self._is_epilogue(event):
            return {"show": last, "frame": last, "told": len(self._said[last])}
        return {"show": last, "frame": last + 1, "told": len(self._unsaid)}

    def _is_epilogue(self, event: Event) -> bool:
        """Whether it comes after the picture of its step."""
        return bool(self._said) and event.step == self._last_step

    def show(self, state: State, step: Event) -> None:
        """The picture after a step's writes."""
        self._add(state, {"step": step.step, **step.changes, **step.changes["ledger"]})

    def rest(self, state: State) -> None:
        """The picture while nothing is to do: all memory is free, though some may be found again."""
        cached = len(state.cached) * self._block_size
        self._add(state, {"step": self._last_step, "cached": cached, "free": self._pool - cached})

    @property
    def _last_step(self) -> int:
        return self._columns["step"][-1] if self._said else 0

    def _add(self, state: State, numbers: Json) -> None:
        if len(self.times) % KEYFRAME_FRAMES == 0:
            self._keyframes.append(self._encoder.keyframe(state))
        flipped = [block for block, was in self._was_cached.items() if was != (block in state.cached)]
        self._deltas.append(self._encoder.delta(self._before, state, self._touched, flipped))
        self._kinds[len(self.times)] |= self._unseen
        self._said.append(self._unsaid)
        self.times.append(state.time)
        for name, column in self._columns.items():
            column.append(numbers.get(name, 0))
        self._forget(state)

    def _forget(self, now: State) -> None:
        """What was noted is told; from now on `now` is what held before."""
        before = self._before
        for noted in (before.block_tables, before.stored, before.emitted):
            noted.clear()
        if self._is_queue_moved:
            before.waiting, before.running, before.swapped = now.waiting[:], now.running[:], now.swapped[:]
        self._is_queue_moved = False
        self._touched, self._was_cached, self._unsaid, self._unseen = {}, {}, [], set()

    def as_json(self) -> Json:
        """What the player gets of the frames."""
        return {
            "columns": {name: column for name, column in self._columns.items() if any(column)},
            "deltas": self._deltas,
            "keyframes": self._keyframes,
            "said": self._said,
            "marks": self._frames_with(INTERESTING),
            "alarms": self._frames_with(ALARMING),
        }

    def _frames_with(self, kinds: tuple[Kind, ...]) -> list[int]:
        return sorted(frame for frame, seen in self._kinds.items() if not seen.isdisjoint(kinds))


def _is_plain_decode(state: State, event: Event, request: str) -> bool:
    """Whether the event is one token more, stored and emitted, of a request's only sequence."""
    changes = event.changes
    return (
        event.kind is Kind.DECODE
        and request not in state.width
        and changes["stored"] == state.stored.get(request, 0) + 1
        and changes["emitted"] == state.emitted.get(request, 0) + 1
    )


def _cells_that_change(event: Event) -> list[int]:
    """The blocks that an event may bring into the prefix cache, or take out of it."""
    match event.kind:
        case Kind.ALLOC | Kind.HIT | Kind.FREE:
            return [*event.changes.get("blocks", ()), *event.changes.get("cached", ())]
        case Kind.COPY if "destination" in event.changes:
            return [event.changes["destination"]]
        case _:
            return []


def _cells_of(event: Event) -> list[int]:
    """The cells that an event gives or takes over."""
    changes = event.changes
    match event.kind:
        case Kind.ALLOC | Kind.HIT | Kind.EVICT:
            return [cell for cell in changes.get("blocks", changes.get("slots", ())[:1]) if cell != HOLE]
        case Kind.COPY if "destination" in changes:
            return [changes["source"], changes["destination"]]
        case Kind.MOVE:
            return [changes["destination_slots"][0]]
        case _:
            return []
