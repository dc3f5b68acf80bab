"""What can be asked about an event of a run, by its kind, and what is told of the moment before it."""

from collections.abc import Callable
from dataclasses import dataclass

from app.recorded import Recording
from sim.events import Event, Kind
from sim.state import State
from sim.tables import HOLE
from sim.victims import VICTIMS
from sim.words import counted

WASTE = "waste"
WASTE_TOLERANCE = 0.5  # percentage points
MOST_TABLES, MOST_BLOCKS = 8, 48  # of more, only the numbers are told


@dataclass(frozen=True, slots=True)
class Asked:
    """A question; `why` is given where the event's own sentence does not answer it."""

    ask: str
    answer: str
    why: str = ""
    choices: tuple[str, ...] = ()
    tolerance: float = 0.0


@dataclass(frozen=True, slots=True)
class Stop:
    """A run before one of its events. A step's own event has happened: it closes the step."""

    run: Recording
    state: State
    event: Event

    @property
    def name(self) -> str:
        """The sequence that the event is about."""
        request, index = self.event.request or "", self.event.changes.get("sequence", 0)
        return f"{request}/{index}" if request in self.state.width else request

    @property
    def block_size(self) -> int:
        """Slots of a block or page; 0 where sequences hold ranges."""
        return self.run.cell_slots

    @property
    def num_blocks(self) -> int:
        """Blocks of the pool."""
        return self.run.pool // self.block_size

    @property
    def num_free(self) -> int:
        """Blocks that stand in no table."""
        return self.num_blocks - len(self.state.ref_counts())


@dataclass(frozen=True, slots=True)
class Topic:
    """A kind of question: whether it can be asked at a stop, which is cheap to say, and the question."""

    kind: str
    can_ask: Callable[[Stop], bool]
    ask: Callable[[Stop], Asked]


def situation(stop: Stop, *, tells_stored: bool = False) -> str:
    """What can be seen at the stop."""
    state = stop.state
    tables, is_few = state.block_tables, len(state.block_tables) <= MOST_TABLES
    if not stop.block_size:
        held = (
            f"Ranges are held by {counted(len(tables), 'sequences')}." if tables else "Nobody holds memory."
        )
    else:
        is_few = is_few and sum(map(len, tables.values())) <= MOST_BLOCKS
        listed = "; ".join(f"{name} holds {table}" for name, table in tables.items())
        in_use = counted(stop.num_blocks - stop.num_free, "blocks")
        numbers = f"{in_use} held by {counted(len(tables), 'sequences')}"
        who = (listed if is_few else numbers) or "nobody holds a block"
        held = f"{who}; {stop.num_free} of {stop.num_blocks} blocks free."
    if tells_stored and is_few:
        stored = (f"{name} {count}" for name, count in state.stored.items() if name in tables)
        held += f" Tokens stored: {', '.join(stored)}."
    return held


def waste(stop: Stop) -> Asked:
    """The share of held slots without live tokens, after a step."""
    ledger = stop.event.changes["ledger"]
    held = ledger["pool"] - ledger["free"] - ledger["external"] - ledger["cached"]
    percent = 100 * (1 - ledger["live"] / held) if held else 0.0
    return Asked(
        "How much of what is held is wasted, in %?",
        f"{percent:.1f}",
        f"{held - ledger['live']} of {held} slots held are not live",
        tolerance=WASTE_TOLERANCE,
    )


def _grows(stop: Stop) -> bool:
    is_running = stop.event.request in stop.state.running
    return "slots" in stop.event.changes or (is_running and stop.name in stop.state.block_tables)


def _needs_memory(stop: Stop) -> Asked:
    """A running sequence whose last block is full; or a range for a request."""
    changes, name = stop.event.changes, stop.name
    if "slots" not in changes:
        stored, left = stop.state.stored[name], stop.num_free - len(changes["blocks"])
        needs = f"{name} has {counted(stored, 'tokens')} stored and needs room for one more."
        return Asked(f"{needs} How many blocks are free after that?", str(left))
    request = next(one for one in stop.run.requests if one.id == stop.event.request)
    max_len = stop.run.settings.get("max_len")
    longest = f"; the longest sequence served has {max_len}" if max_len else ""
    about = (
        f"{name} has a prompt of {counted(request.prompt, 'tokens')}, will emit {request.output} and may "
        f"emit {request.max_tokens}{longest}."
    )
    return Asked(f"{about} How many slots does {stop.run.allocator} give it?", str(changes["slots"][1]))


def _is_whole(stop: Stop) -> bool:
    """Its table has no holes: all its tokens lie in blocks."""
    return stop.block_size > 0 and HOLE not in stop.state.block_tables.get(stop.name, ())


def _admitted(stop: Stop) -> Asked:
    """A waiting request gets in: its blocks are in the table already."""
    held = len(stop.state.block_tables.get(stop.name, ()))
    tokens = stop.event.changes["tokens"] + stop.event.changes["hit"]
    return Asked(
        f"{stop.name} was just admitted with {counted(tokens, 'tokens')}. In how many blocks do they lie?",
        str(held),
    )


def _preempted(stop: Stop) -> Asked:
    """Somebody has to give up all its memory."""
    state = stop.state
    running = ", ".join(f"{name} (arrival {state.order[name] + 1})" for name in state.running)
    needy = stop.event.why.split(" needs ")[0]
    text = f"{needy} needs memory. Running, in order of arrival: {running}."
    text += f"{_policy(stop.event.why)} Who is preempted?"
    return Asked(text, stop.event.request or "", choices=tuple(state.running))


def _policy(why: str) -> str:
    """By which rule the victim was chosen: its sentence says it, and a log has no dials."""
    because = next((rule.because for rule in VICTIMS.values() if rule.because in why), None)
    if because is None:
        return ""
    named = because.removesuffix(" running request")
    who = named.removeprefix("is ") if named != because else f"the one that {because}"
    return f" The server preempts {who}."


def _released(stop: Stop) -> Asked:
    """A request leaves, or is preempted."""
    after = stop.num_free + len(stop.event.changes["blocks"])
    return Asked(f"{stop.name} gives up its memory. How many blocks are free after that?", str(after))


def _leaves(stop: Stop) -> bool:
    """It gives up all its blocks, and not only those that it reads no more."""
    return bool(stop.event.changes.get("blocks")) and "places" not in stop.event.changes


def _has_room(stop: Stop) -> bool:
    """One more token is stored, in the second block of its table or a later one."""
    table, stored = stop.state.block_tables.get(stop.name), stop.state.stored.get(stop.name, 0)
    is_one_more = stop.event.changes["stored"] == stored + 1
    return (
        isinstance(table, list) and is_one_more and stop.block_size <= stored < len(table) * stop.block_size
    )


def _stores(stop: Stop) -> Asked:
    """Where a token goes: from its place in the sequence, through the block table, to a block."""
    stored, table = stop.state.stored[stop.name], stop.state.block_tables[stop.name]
    about = f"{stop.name} has {counted(stored, 'tokens')} stored, {stop.block_size} to a block"
    if len(table) <= MOST_BLOCKS:
        about += f", and the block table {table}"
    block = table[stored // stop.block_size]
    logical = f"logical block {stored} // {stop.block_size} = {stored // stop.block_size}"
    why = f"token {stored + 1} has place {stored}, which is in {logical}; the table says block {block}"
    return Asked(f"{about}. Into which physical block goes its next token?", str(block), why)


TOPICS = {
    Kind.ALLOC: Topic("alloc", _grows, _needs_memory),
    Kind.ADMIT: Topic("admit", _is_whole, _admitted),
    Kind.PREEMPT: Topic("preempt", lambda stop: len(stop.state.running) > 1, _preempted),
    Kind.FREE: Topic("free", _leaves, _released),
    Kind.DECODE: Topic("where", _has_room, _stores),
}
