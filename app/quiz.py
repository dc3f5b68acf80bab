"""Questions about a small run: what happens next, and how much. A seed makes the same sheet everywhere.

The run is stopped before an event; the question gives what is known then, and the answer is what the run did.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

from sim import Config, Request, Run, Trace, simulate
from sim.events import Event, Kind
from sim.state import State

BLOCK, NUM_BLOCKS = 4, 12
NUM_REQUESTS = 7


@dataclass(frozen=True, slots=True)
class Question:
    """`answer` is short enough to be compared; `why` is the run's own sentence."""

    step: int
    text: str
    answer: str
    why: str


def sheet(seed: int, count: int = 5) -> list[Question]:
    """`count` questions in the order of the run, of as many kinds as it has."""
    random = Random(seed)
    by_kind: dict[str, list[Question]] = {}
    for kind, question in questions(small_run(random)):
        by_kind.setdefault(kind, []).append(question)
    chosen: list[Question] = []
    while len(chosen) < count and any(by_kind.values()):
        for rest in by_kind.values():
            if rest and len(chosen) < count:
                chosen.append(rest.pop(random.randrange(len(rest))))
    return sorted(chosen, key=lambda question: question.step)


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


def questions(run: Run) -> Iterator[tuple[str, Question]]:
    """All that can be asked of the run, with the kind of each question."""
    state = State()
    for event in run.events:
        ask = ASKED.get(event.kind)
        if ask and (found := ask(state, event)):
            text, answer = found
            yield str(event.kind), Question(event.step, f"{situation(state)} {text}", answer, event.why)
        state.apply(event)
        if event.kind is Kind.STEP:
            yield "waste", waste(state, event)


def free_blocks(state: State) -> int:
    """Blocks that stand in no table."""
    return NUM_BLOCKS - len(state.ref_counts())


def situation(state: State) -> str:
    """What can be seen before the event."""
    tables = (
        "; ".join(f"{name} holds {table}" for name, table in state.block_tables.items())
        or "nobody holds a block"
    )
    return f"{tables}; {free_blocks(state)} of {NUM_BLOCKS} blocks free."


def grows(state: State, event: Event) -> tuple[str, str] | None:
    """A running sequence whose last block is full."""
    name = event.request or ""
    if name not in state.block_tables:
        return None
    left = free_blocks(state) - len(event.changes["blocks"])
    stored = state.stored[name]
    text = (
        f"{name} has {stored} tokens stored and needs room for one more. How many blocks are free after that?"
    )
    return text, str(left)


def admitted(state: State, event: Event) -> tuple[str, str] | None:
    """A waiting request gets in: its blocks are in the table already."""
    name = event.request or ""
    held = len(state.block_tables.get(name, ()))
    text = f"{name} was just admitted with {event.changes['tokens']} tokens. In how many blocks do they lie?"
    return text, str(held)


def preempted(state: State, event: Event) -> tuple[str, str] | None:
    """Somebody has to give up all its memory."""
    running = ", ".join(f"{name} (arrival {state.order[name] + 1})" for name in state.running)
    needy = event.why.split(" needs ")[0]
    text = f"{needy} needs a block. Running, in order of arrival: {running}. Who is preempted?"
    return text, event.request or ""


def released(state: State, event: Event) -> tuple[str, str] | None:
    """A request leaves, or is preempted."""
    name = event.request or ""
    after = free_blocks(state) + len(event.changes["blocks"])
    return f"{name} gives up its memory. How many blocks are free after that?", str(after)


def waste(state: State, event: Event) -> Question:
    """The share of held slots without live tokens."""
    ledger = event.changes["ledger"]
    held = ledger["pool"] - ledger["free"] - ledger["external"]
    percent = 100 * (1 - ledger["live"] / held) if held else 0.0
    stored = ", ".join(
        f"{name} {count}" for name, count in state.stored.items() if name in state.block_tables
    )
    text = f"{situation(state)} Tokens stored: {stored}. How much of what is held is wasted, in %?"
    return Question(
        event.step, text, f"{percent:.1f}", f"{held - ledger['live']} of {held} slots held are not live"
    )


ASKED: dict[Kind, Callable[[State, Event], tuple[str, str] | None]] = {
    Kind.ALLOC: grows,
    Kind.ADMIT: admitted,
    Kind.PREEMPT: preempted,
    Kind.FREE: released,
}
