"""One or two finished runs as the one JSON document that a player draws without asking again.

    trace      name, requests
    requests   [[id, prompt, max_tokens, output], ...]    a request's number is its place here
    sequences  [request, ...]    the request of each sequence; several where it has samples or beams
    clock      time: seconds of each moment; frames: for each side, the frame shown at each moment
    start      the moment to open at: where the sides differ most
    verdict    one sentence with the numbers of the reports
    sides      for each run what `encode_side` says

Frames and deltas are explained in `app.deltas`. Policy stays on this side: a player folds and paints.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from app.deltas import KEYFRAME_FRAMES, Delta, DeltaEncoder
from app.moments import merge_clocks, opening_moment
from sim import InputError, Run, __version__
from sim.dials import flag
from sim.events import Event, Kind
from sim.ledger import CLASSES, waste_percent
from sim.replay import State

FORMAT = 1
MAX_EVENTS = 1_000_000
INTERESTING = (
    Kind.REJECT, Kind.ADMIT, Kind.PREEMPT, Kind.SWAP_OUT, Kind.SWAP_IN,
    Kind.FORK, Kind.COPY, Kind.EVICT, Kind.MOVE, Kind.ROLLBACK, Kind.FINISH,
)  # fmt: skip
ALARMING = (Kind.PREEMPT, Kind.REJECT)
COLUMNS = ("step", "batch", "tokens", "running", "waiting", "swapped", *CLASSES)
UNSAID = (Kind.DECODE, Kind.STEP)  # the frame's numbers say it already

Json = dict[str, Any]


def replay_payload(runs: Sequence[Run]) -> Json:
    """The replay of `runs`, side by side on one clock. All must have served the same requests.

    Raises InputError for runs of different traces, without events, or too long to be drawn.
    """
    trace = runs[0].trace
    for run in runs:
        if run.trace.requests != trace.requests:
            raise InputError(f"{run.trace.name} beside {trace.name}: two sides must serve the same requests")
        if not run.num_steps:
            raise InputError(f"{run.config.allocator}: no request could run: {_first_refusal(run)}")
        if not run.events:
            raise InputError(f"{run.config.allocator}: the run kept no events: there is nothing to replay")
        for dial in ("window", "keep_recent"):
            if getattr(run.config, dial) is not None:
                raise InputError(
                    f"{flag(dial)}: the player does not show dropped tokens yet; leave it out to replay"
                )
        if len(run.events) > MAX_EVENTS:
            raise InputError(
                f"{len(run.events):,} events under {run.config.allocator}: a replay draws {MAX_EVENTS:,} at "
                "most; take fewer requests"
            )
    sides, times = zip(*(encode_side(run) for run in runs), strict=True)
    for side, name in zip(sides, side_names(runs), strict=True):
        side["name"] = name
    moments, frames = merge_clocks(times)
    return {
        "format": FORMAT,
        "pagelab": __version__,
        "trace": {"name": trace.name, "requests": trace.num_requests},
        "requests": [[one.id, one.prompt, one.max_tokens, one.output] for one in trace.requests],
        "sequences": [number for number, one in enumerate(trace.requests) for _ in range(one.width)],
        "clock": {"time": [round(time, 6) for time in moments], "frames": frames},
        "start": opening_moment(sides, frames),
        "verdict": verdict(runs),
        "sides": list(sides),
    }


def _first_refusal(run: Run) -> str:
    refused = [one for one in run.groups if one.reject_reason is not None]
    return f"{refused[0].request.id} {refused[0].reject_reason}" if refused else "there is none"


def encode_side(run: Run) -> tuple[Json, list[float]]:
    """One run for the player, and the time in seconds of each of its frames.

    `cell_slots` is the size of a cell, 0 where each has its own. `columns` has a number for each frame;
    ledger classes that stay 0 are left out. `said` is what happened: [[kind, request, why], ...] a frame.
    `marks` are frames worth stopping at, `alarms` those with a preemption or a rejection.
    """
    frames = _Frames(run)
    state = State(time=run.events[0].time)
    frames.rest(state)
    for event in run.events:
        if event.time > state.time and event.kind is Kind.ARRIVE:  # nothing was to do until it came
            frames.rest(state)
        state.apply(event)
        frames.hear(event)
        if event.kind is Kind.STEP:
            frames.show(state, event)
    frames.rest(state)
    return {**_describe(run), **frames.as_json()}, frames.times


class _Frames:
    """The frames of one run, in the making. `hear` every event, then `show` or `rest` makes a picture."""

    def __init__(self, run: Run) -> None:
        self.times: list[float] = []
        self._pool = int(run.series.column("pool")[0])
        allocator = run.config.allocator
        self._block_size = cell_slots(run) or run.config.block_size
        self._encoder = DeltaEncoder(
            run.trace.requests,
            self._block_size,
            grows=allocator in ("grow", "slab"),
            has_pages=allocator == "virtual",
        )
        self._before = State()
        self._touched: dict[str, None] = {}  # a set that keeps the order of events
        self._deltas: list[Delta] = []
        self._keyframes: list[Delta] = []
        self._said: list[list[list[Any]]] = []
        self._kinds: dict[int, set[Kind]] = defaultdict(set)
        self._columns: dict[str, list[int]] = {name: [] for name in COLUMNS}
        self._unsaid: list[list[Any]] = []
        self._unseen: set[Kind] = set()

    def hear(self, event: Event) -> None:
        """Takes note of an event. What happens after a step's picture is told with that step."""
        if event.request is None:
            return
        self._touched[event.request] = None
        if event.kind in UNSAID:
            return
        is_epilogue = self._said and event.step == self._last_step
        number = self._encoder.numbers[event.request]
        (self._said[-1] if is_epilogue else self._unsaid).append([event.kind, number, event.why])
        (self._kinds[len(self._said) - 1] if is_epilogue else self._unseen).add(event.kind)

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
        after = state.copy()
        if len(self.times) % KEYFRAME_FRAMES == 0:
            self._keyframes.append(self._encoder.keyframe(after))
        self._deltas.append(self._encoder.delta(self._before, after, self._touched))
        self._kinds[len(self.times)] |= self._unseen
        self._said.append(self._unsaid)
        self.times.append(state.time)
        for name, column in self._columns.items():
            column.append(numbers.get(name, 0))
        self._before, self._touched, self._unsaid, self._unseen = after, {}, [], set()

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


def cell_slots(run: Run) -> int:
    """Slots of a cell of this run: of a block, or 0 where every cell is a range of its own length."""
    return run.config.slots_per_block or 0


def side_name(run: Run) -> str:
    """How a sentence calls a side."""
    name = run.config.allocator
    return name if name in ("paged", "mixed", "virtual") else f"contiguous ({name})"


def side_names(runs: Sequence[Run]) -> list[str]:
    """The sides' names; two of one allocator are told apart by what only one of them has."""
    names = [side_name(run) for run in runs]
    for dial, plain, words in (("prefix_cache", "off", "prefix cache"), ("preempt", "recompute", "swap")):
        values = [getattr(run.config, dial) for run in runs]
        if len(set(names)) < len(names) and len(set(values)) > 1:
            has = [value != plain for value in values]
            names = [f"{name} + {words}" if one else name for name, one in zip(names, has, strict=True)]
    return names


def _describe(run: Run) -> Json:
    config, report = run.config, run.report()
    unit = "pages" if config.allocator == "virtual" else "blocks"
    how = f"{unit} of {cell_slots(run)} tokens, on demand"
    if not cell_slots(run):
        how = f"one range a request, {config.placement} placement"
    return {
        "name": side_name(run),
        "about": how,
        "source": run.source,
        "clock": run.clock,
        "cell_slots": cell_slots(run),
        "pool": int(run.series.column("pool")[0]),
        "summary": {
            "waste_percent": round(_waste(report["ledger"]), 3),
            "batch_mean": round(report["batch"]["mean"], 3),
            "time_s": round(run.time_s, 6),
            "preemptions": run.num_preemptions,
            "rejected": report["requests"]["rejected"],
        },
    }


def verdict(runs: Sequence[Run]) -> str:
    """What the two reports say about each other, in one sentence a reader can quote.

    Waste is the reports' own where nothing is cached. Cached blocks are there for whoever needs them, so
    they count as not taken.
    """
    reports = [run.report() for run in runs]
    names = side_names(runs)
    if len(set(names)) < len(names):
        names = [f"{name}, {run.source}" for name, run in zip(names, runs, strict=True)]
    wastes = [
        f"{name} wastes {_waste(one['ledger']):.1f} %" for name, one in zip(names, reports, strict=True)
    ]
    means = [f"{one['batch']['mean']:.1f}" for one in reports]
    ends = [f"{run.time_s:.4g} s" for run in runs]
    apart = ", evictable cached blocks apart" if any(one["ledger"]["cached"] for one in reports) else ""
    text = ", ".join(wastes)
    return (
        f"{text[0].upper()}{text[1:]} of the memory it takes{apart}: {' against '.join(means)} sequences run "
        f"at a time on average, and all is done after {' against '.join(ends)}."
    )


def _waste(ledger: dict[str, float]) -> float:
    return waste_percent(ledger["pool"], ledger["live"], ledger["free"] + ledger["cached"])
