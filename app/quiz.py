"""Questions about a run: what happens next, where, and how much. A seed draws the same ones everywhere.

The run is stopped before an event; the question gives what is known then, and the answer is what the run did.
The printed sheet (`pagelab quiz`) and the player (`app.payload`) both ask what is made here.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from random import Random

from app.recorded import Recording, recording_of
from app.topics import TOPICS, WASTE, Stop, situation, waste
from sim import Config, Request, Run, Trace, simulate
from sim.events import Kind
from sim.state import State

BLOCK, NUM_BLOCKS = 4, 12
NUM_REQUESTS = 7
COUNT = 6  # questions of a sheet: one of each kind


@dataclass(frozen=True, slots=True)
class Question:
    """`event` is the place in the log of what is asked about: the run is stopped before it, and for `waste`
    after it. A number within `tolerance` of `answer` is right; where there are `choices`, one of them is.
    `why` is the run's own sentence."""

    step: int
    kind: str
    event: int
    situation: str
    ask: str
    answer: str
    why: str
    choices: tuple[str, ...] = ()
    tolerance: float = 0.0

    @property
    def text(self) -> str:
        """The question as a sheet prints it."""
        return f"{self.situation} {self.ask}"


def sheet(seed: int, count: int = COUNT) -> list[Question]:
    """The questions of `pagelab quiz --seed`, in the order of the run."""
    return sheet_and_run(seed, count)[0]


def sheet_and_run(seed: int, count: int = COUNT) -> tuple[list[Question], Recording]:
    """The sheet, and the small run that it is about."""
    random = Random(seed)
    run = recording_of(small_run(random))
    return draw(run, random, count), run


def small_run(random: Random) -> Run:
    """A few requests in a pool that is too small for all of them."""
    rows: list[Request] = []
    for index in range(NUM_REQUESTS):
        output = random.randint(4, 14)
        rows.append(
            Request(
                id=f"r{index}",
                arrival_s=float(random.randint(0, 6)),
                prompt=random.randint(3, 14),
                output=output,
                max_tokens=output,
            )
        )
    config = Config(allocator="paged", block_size=BLOCK, pool_blocks=NUM_BLOCKS, timing="unit", max_len=64)
    return simulate(Trace("quiz", tuple(sorted(rows, key=lambda row: row.arrival_s))), config)


def draw(run: Recording, random: Random, count: int) -> list[Question]:
    """`count` questions about `run` in its order, of as many kinds as it has; fewer where it has fewer."""
    by_kind: dict[str, list[int]] = {}
    for event, kind in candidates(run):
        by_kind.setdefault(kind, []).append(event)
    chosen: list[tuple[int, str]] = []
    while len(chosen) < count and any(by_kind.values()):
        for kind, rest in by_kind.items():
            if rest and len(chosen) < count:
                chosen.append((rest.pop(random.randrange(len(rest))), kind))
    return list(_ask(run, sorted(chosen)))


def questions(run: Recording) -> Iterator[Question]:
    """All that can be asked of the run."""
    return _ask(run, candidates(run))


def candidates(run: Recording) -> Iterator[tuple[int, str]]:
    """(place in the log, kind of question) of all that can be asked, in order."""
    state = State()
    for place, event in enumerate(run.events):
        if event.kind is Kind.STEP:
            if not run.is_stream:
                yield place, WASTE
        elif (topic := TOPICS.get(event.kind)) and topic.can_ask(Stop(run, state, event)):
            yield place, topic.kind
        state.apply(event)


def _ask(run: Recording, chosen: Iterable[tuple[int, str]]) -> Iterator[Question]:
    """The run goes on from one of `chosen` to the next, and stops at each."""
    state, reached = State(), 0
    for place, kind in chosen:
        until = place + (kind == WASTE)
        for event in run.events[reached:until]:
            state.apply(event)
        reached = until
        stop = Stop(run, state, run.events[place])
        asked = waste(stop) if kind == WASTE else TOPICS[stop.event.kind].ask(stop)
        yield Question(
            stop.event.step,
            kind,
            place,
            situation(stop, tells_stored=kind == WASTE),
            asked.ask,
            asked.answer,
            asked.why or stop.event.why,
            asked.choices,
            asked.tolerance,
        )
