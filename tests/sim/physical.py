"""What the pool's memory really holds, from the log alone: an oracle that knows no allocator.

The keys and values of a token depend on it and on the tokens before it, and on nothing else. So a slot holds
the name of a whole prefix, equal exactly where the tokens are known to be equal. Forks, copies, swaps and
prefix hits are right when every sequence finds the names of its own tokens where its table says.
"""

from collections.abc import Hashable, Iterable
from typing import Any

from sim import Request
from sim.events import Event, Kind
from sim.replay import BlockTable, SlotRange, State

Prefix = int


class Memory:
    """`apply` the events in order. Tables are the replay's; contents are kept here."""

    def __init__(self, requests: Iterable[Request], num_slots: int, block_size: int) -> None:
        self.state = State()
        self.slots: list[Prefix | None] = [None] * num_slots  # None: nothing that anybody may read
        self._written = self.slots  # after the step's writes: what copies of whole ranges read
        self._host: dict[int, list[Prefix | None]] = {}
        self._size = block_size
        self._requests = {request.id: request for request in requests}
        self._known: dict[str, list[Prefix]] = {}  # of each sequence, the prefixes that end with its tokens
        self._offered: dict[str, list[Prefix]] = {}  # the same, before it was said which beams go on
        self._names: dict[Hashable, Prefix] = {}

    def expect(self, request: Request) -> None:
        """One request more that may arrive."""
        self._requests[request.id] = request

    def apply(self, event: Event) -> None:
        """Changes contents as the event says, and the tables."""
        changes, request = event.changes, event.request or ""
        name = f"{request}/{changes['sequence']}" if "sequence" in changes else request
        match event.kind:
            case Kind.ALLOC:
                self._clear(changes.get("blocks", ()), self._new_part(name, changes.get("slots")))
            case Kind.FREE:
                gone = set(changes.get("blocks", ())) - set(changes.get("cached", ()))
                self._clear(gone, changes.get("slots"))
            case Kind.COPY if "source" in changes:
                filled = self._read(changes["source"])[: changes["tokens"]]
                self._put(changes["destination"], [*filled, *[None] * (self._size - len(filled))])
            case Kind.COPY:  # all that another sequence has stored; those of one step read what it wrote
                parent = self._owner_of(changes)
                pairs = zip(self._held_by(name), self._held_by(parent), strict=False)
                for _, (slot, source) in zip(range(changes["tokens"]), pairs, strict=False):
                    self.slots[slot] = self._written[source]
                self._branch(name, parent)
            case Kind.MOVE:
                source, destination = changes["source_slots"], changes["destination_slots"]
                content = self.slots[source[0] : source[0] + changes["tokens"]]
                self._clear((), source)
                self._clear((), destination)
                self.slots[destination[0] : destination[0] + len(content)] = content
            case Kind.FORK if name in self.state.block_tables:  # else it starts, or comes back as it was
                self._branch(name, f"{request}/{changes['parent']}")
            case Kind.SWAP_OUT:
                for block, host_block in zip(changes["blocks"], changes["host_blocks"], strict=True):
                    self._host[host_block] = self._read(block)
            case Kind.SWAP_IN:
                for block, host_block in zip(changes["blocks"], changes["host_blocks"], strict=True):
                    self._put(block, self._host.pop(host_block))
            case Kind.PREFILL | Kind.DECODE:
                self._write(name, changes)
                self._written = self.slots[:]
            case _:
                pass
        self.state.apply(event)
        if event.kind is Kind.ARRIVE:
            prompt = self._prompt_of(self._requests[request])
            self._known.update(dict.fromkeys(self.state.names(request), prompt))

    def check(self) -> None:
        """Every stored token lies where the table says, and is the sequence's own.

        Sequences that come back together share what the first of them has yet to compute.
        """
        for names in map(self.state.names, self.state.running):
            computed = self.state.stored[names[0]]
            for name in (name for name in names if name in self.state.stored):
                self._check(name, min(computed, self.state.stored[name]))

    def _check(self, name: str, stored: int) -> None:
        found = [self.slots[slot] for slot in self._held_by(name)[:stored]]
        wrong = [place for place, prefix in enumerate(found) if prefix != self._known[name][place]]
        assert len(found) == stored, f"{name} stores {stored} tokens, its table has room for {len(found)}"
        assert not wrong, f"step {self.state.step}: {name} reads something else at {wrong} of {stored}"

    def live(self) -> set[int]:
        """Slots that hold a token of a sequence with a table."""
        return {
            slot
            for name, table in self.state.block_tables.items()
            for slot, prefix in zip(self._held(table), self._known[name], strict=False)
            if self.slots[slot] == prefix
        }

    def _held(self, table: BlockTable) -> list[int]:
        if isinstance(table, SlotRange):
            return list(range(table.start, table.start + table.length))
        return [block * self._size + offset for block in table for offset in range(self._size)]

    def _held_by(self, name: str) -> list[int]:
        return self._held(self.state.block_tables[name])

    def _owner_of(self, changes: dict[str, Any]) -> str:
        """Whose pages or range a copy reads."""
        if "source_blocks" in changes:
            first = changes["source_blocks"][0] * self._size
        else:
            first = changes["source_slots"][0]
        return next(name for name in self.state.block_tables if self._held_by(name)[0] == first)

    def _new_part(self, name: str, slots: tuple[int, int] | None) -> tuple[int, int] | None:
        """What a range that gets longer did not hold before."""
        table = self.state.block_tables.get(name)
        if slots is None or not isinstance(table, SlotRange):
            return slots
        assert slots[0] == table.start, f"{name} is extended from {table.start}, and now starts at {slots[0]}"
        return table.start + table.length, slots[1] - table.length

    def _read(self, block: int) -> list[Prefix | None]:
        return self.slots[block * self._size : (block + 1) * self._size]

    def _put(self, block: int, content: list[Prefix | None]) -> None:
        self.slots[block * self._size : (block + 1) * self._size] = content

    def _clear(self, blocks: Iterable[int], slots: tuple[int, int] | None) -> None:
        for block in blocks:
            self._put(block, [None] * self._size)
        if slots:
            start, length = slots
            self.slots[start : start + length] = [None] * length

    def _write(self, name: str, changes: dict[str, Any]) -> None:
        """Tokens are stored, and perhaps a new one is out."""
        known, stop = self._known[name], changes["stored"]
        places = self._held_by(name)
        for position in range(stop - changes.get("tokens", 1), stop):
            self.slots[places[position]] = known[position]
        request = self._requests[name.rpartition("/")[0] or name]
        if request.prompt + changes["emitted"] > len(known):
            self._offered[name] = known
            first_fork = changes["emitted"] == 1 and request.width > 1
            for one in self.state.names(request.id) if first_fork else [name]:
                self._known[one] = self._emit(known, one)

    def _branch(self, child: str, parent: str) -> None:
        """The child has what the parent had stored; its newest token is its own."""
        self._known[child] = self._emit(self._offered[parent], child)

    def _emit(self, stored: list[Prefix], name: str) -> list[Prefix]:
        return [*stored, self._extend(stored[-1], ("generated", name))]

    def _extend(self, prefix: Prefix | None, token: Hashable) -> Prefix:
        return self._names.setdefault((prefix, token), len(self._names))

    def _prompt_of(self, request: Request) -> list[Prefix]:
        known: list[Prefix] = []
        for position in range(request.prompt):
            if request.tokens is not None:
                token: Hashable = ("token", request.tokens[position])
            elif request.blocks is not None and request.block_tokens is not None:
                index, offset = divmod(position, request.block_tokens)
                token = ("block", request.block_tokens, request.blocks[index], offset)
            elif position < request.prefix_tokens:
                token = ("prefix", request.prefix)
            else:
                token = ("own", request.id)
            known.append(self._extend(known[-1] if known else None, token))
        return known
