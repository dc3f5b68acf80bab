"""What stands in every slot, from the event log alone: does each query find the tokens that it means to read?

The log says which sequence stored which positions in a step and what its block table was. From that the
witness writes names of tokens into slots, copies them where blocks are copied or swapped, wipes what is
freed or evicted, and looks at every position that every query of every step reads.
"""

from collections.abc import Hashable
from itertools import count
from typing import Any

from sim.events import Event, Kind
from sim.state import State
from sim.tables import HOLE
from tests.sim.slot_by_slot import reads

RUNS = (Kind.PREFILL, Kind.DECODE, Kind.ROLLBACK)


class Witness:
    def __init__(self, run) -> None:
        self.config = run.config
        self.requests = {request.id: request for request in run.trace.requests}
        self.size = run.config.block_size
        self.slots: dict[int, Hashable] = {}
        self.host: dict[int, list[Hashable]] = {}
        self.tokens: dict[str, list[Hashable]] = {}  # by sequence: what its positions hold
        self.serial = count()
        self.state = State()
        self.tables: dict[str, Any] = {}  # as they were when the step ran
        self.ran: list[tuple[str, Event]] = []
        self.executed = 0  # the last step of which the chunks ran
        self.before_forks: dict[str, list[Hashable]] = {}
        self.num_looked_at = 0
        for event in run.events:
            self.hear(event)

    def hear(self, event: Event) -> None:
        if event.kind in RUNS and not self.ran:
            self.tables = dict(self.state.block_tables)
        if event.kind in RUNS:
            self.ran.append((self.name(event), event))
        elif event.kind in (Kind.FORK, Kind.FREE, Kind.STEP) and self.ran:
            self.execute()
        handle = getattr(self, "on_" + event.kind, None)
        if handle:
            handle(event, event.changes)
        self.state.apply(event)

    def name(self, event: Event) -> str:
        has_many = self.requests[event.request or ""].width > 1
        return f"{event.request}/{event.changes['sequence']}" if has_many else str(event.request)

    def execute(self) -> None:
        """All writes of the step, then all reads: as every layer does."""
        chunks = [(name, event) for name, event in self.ran if event.kind is not Kind.ROLLBACK]
        for name, event in self.ran:
            if event.kind is Kind.ROLLBACK:
                for at in range(*event.changes["positions"]):
                    self.slots[self.slot(name, at)] = ("rejected", next(self.serial))
        for name, event in chunks:
            for at in self.span(event):
                self.slots[self.slot(name, at)] = self.token(name, at)
        for name, event in chunks:
            for query in self.span(event):
                self.look(name, event, query)
        self.executed = self.ran[0][1].step
        self.ran = []
        self.before_forks = {name: list(tokens) for name, tokens in self.tokens.items()}

    def span(self, event: Event) -> range:
        stored = event.changes["stored"]
        num_tokens = (
            event.changes["tokens"] if event.kind is Kind.PREFILL else event.changes.get("accepted", 0) + 1
        )
        return range(stored - num_tokens, stored)

    def slot(self, name: str, at: int) -> int:
        block = self.tables[name][at // self.size]
        assert block != HOLE, f"{name} reads or writes position {at}, where its table has a hole"
        return block * self.size + at % self.size

    def token(self, name: str, at: int) -> Hashable:
        request = self.requests[name.split("/")[0]]
        if at < request.prompt:
            return request.tokens[: at + 1] if request.tokens else (request.id, at)
        known = self.tokens.setdefault(name, [])
        while len(known) <= at - request.prompt:
            known.append((name, next(self.serial)))
        return known[at - request.prompt]

    def look(self, name: str, event: Event, query: int) -> None:
        is_prefill = event.kind is Kind.PREFILL
        for at in reads(self.config, str(event.request), query, is_prefill=is_prefill):
            found = self.slots.get(self.slot(name, at))
            assert found == self.token(name, at), f"step {event.step}: {name} reads {found} at {at}"
            self.num_looked_at += 1

    def on_fork(self, event: Event, changes: dict[str, Any]) -> None:
        if event.step == self.executed:  # after a step; before one, sequences come back with their own tokens
            self.tokens[self.name(event)] = list(
                self.before_forks.get(f"{event.request}/{changes['parent']}", [])
            )

    def on_copy(self, event: Event, changes: dict[str, Any]) -> None:
        for offset in range(changes["tokens"]):
            self.slots[changes["destination"] * self.size + offset] = self.slots.get(
                changes["source"] * self.size + offset
            )

    def on_swap_out(self, event: Event, changes: dict[str, Any]) -> None:
        for block, host_block in zip(changes["blocks"], changes["host_blocks"], strict=True):
            self.host[host_block] = [self.slots.get(block * self.size + at) for at in range(self.size)]

    def on_swap_in(self, event: Event, changes: dict[str, Any]) -> None:
        for block, host_block in zip(changes["blocks"], changes["host_blocks"], strict=True):
            for at, token in enumerate(self.host.pop(host_block)):
                self.slots[block * self.size + at] = token

    def on_free(self, event: Event, changes: dict[str, Any]) -> None:
        self.wipe(set(changes.get("blocks", ())) - set(changes.get("cached", ())))

    def on_evict(self, event: Event, changes: dict[str, Any]) -> None:
        self.wipe(changes["blocks"])

    def wipe(self, blocks) -> None:
        for block in blocks:
            for at in range(self.size):
                self.slots.pop(block * self.size + at, None)
