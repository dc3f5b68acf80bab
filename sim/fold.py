"""How each kind of event changes the state: the other half of `sim.state`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sim.events import Kind
from sim.tables import HOLE, SlotRange

if TYPE_CHECKING:
    from sim.state import State

Changes = dict[str, Any]


def ignore(state: State, request: str, changes: Changes) -> None:
    """What an event of another kind does to the state: nothing."""


def _name(state: State, request: str, changes: Changes) -> str:
    return f"{request}/{changes['sequence']}" if "sequence" in changes else request


def _arrive(state: State, request: str, changes: Changes) -> None:
    # Keyframes share `order`: replaying must not renumber.
    state.order.setdefault(request, len(state.order))
    if "width" in changes:
        state.width[request] = changes["width"]
    state.waiting.append(request)


def _reject(state: State, request: str, changes: Changes) -> None:
    state.waiting.remove(request)


def _admit(state: State, request: str, changes: Changes) -> None:
    state.waiting.remove(request)
    state.join(request, state.running)
    first = state.names(request)[0]
    state.stored[first] = changes["hit"]
    state.emitted.setdefault(first, 0)


def _alloc(state: State, request: str, changes: Changes) -> None:
    name = _name(state, request, changes)
    if "slots" in changes:
        start, length = changes["slots"]
        state.block_tables[name] = SlotRange(start, length, changes["reserved"])
        return
    for block in changes["blocks"]:
        state.cached.pop(block, None)
    state.block_tables[name] = [*state.block_tables.get(name, ()), *changes["blocks"]]


def _hit(state: State, request: str, changes: Changes) -> None:
    for block in changes["blocks"]:
        state.cached.pop(block, None)
    state.block_tables[_name(state, request, changes)] = changes["blocks"]


def _fork(state: State, request: str, changes: Changes) -> None:
    child, parent = _name(state, request, changes), f"{request}/{changes['parent']}"
    state.block_tables[child] = changes["blocks"]
    state.stored[child] = changes["stored"]
    state.emitted[child] = state.emitted[parent]


def _copy(state: State, request: str, changes: Changes) -> None:
    name = _name(state, request, changes)
    table = state.block_tables[name]
    if "place" not in changes:  # all that the other sequence has stored
        state.stored[name] = changes["tokens"]
        state.emitted[name] = state.emitted[state.names(request)[0]]  # in step with its siblings
        return
    assert isinstance(table, list)
    place = changes["place"]
    state.cached.pop(changes["destination"], None)
    state.block_tables[name] = [*table[:place], changes["destination"], *table[place + 1 :]]


def _move(state: State, request: str, changes: Changes) -> None:
    start, length = changes["destination_slots"]
    state.block_tables[_name(state, request, changes)] = SlotRange(start, length, changes["reserved"])


def _free(state: State, request: str, changes: Changes) -> None:
    blocks = changes.get("blocks", [])
    state.cached.update(dict.fromkeys(changes.get("cached", ())))
    name = _name(state, request, changes)
    table = state.block_tables.get(name)
    if isinstance(table, list) and "places" in changes:
        holes = set(changes["places"])
        state.block_tables[name] = [HOLE if at in holes else block for at, block in enumerate(table)]
        return
    if table is None:  # blocks that no beam of the request goes on from
        return
    gone = {HOLE, *blocks, *changes.get("shared", ())}
    left = [block for block in table if block not in gone] if isinstance(table, list) else []
    if left:
        state.block_tables[name] = left
    else:
        del state.block_tables[name]


def _ran(state: State, request: str, changes: Changes) -> None:
    name = _name(state, request, changes)
    state.stored[name] = changes["stored"]
    state.emitted[name] = changes["emitted"]


def _preempt(state: State, request: str, changes: Changes) -> None:
    state.running.remove(request)
    if changes["mode"] == "swap":
        state.join(request, state.swapped)
        return
    for name in state.names(request):
        if name in state.stored:
            state.stored[name] = 0
    state.waiting.insert(0, request)


def _swap_out(state: State, request: str, changes: Changes) -> None:
    state.host_tables[request] = changes["host_blocks"]


def _swap_in(state: State, request: str, changes: Changes) -> None:
    del state.host_tables[request]
    state.swapped.remove(request)
    state.join(request, state.running)


def _finish(state: State, request: str, changes: Changes) -> None:
    state.running.remove(request)
    for name in state.names(request):
        state.stored.pop(name, None)
        state.emitted.pop(name, None)


def _step(state: State, request: str, changes: Changes) -> None:
    state.ledger = changes["ledger"]


FOLD = {
    Kind.ARRIVE: _arrive,
    Kind.REJECT: _reject,
    Kind.ADMIT: _admit,
    Kind.ALLOC: _alloc,
    Kind.HIT: _hit,
    Kind.FORK: _fork,
    Kind.COPY: _copy,
    Kind.MOVE: _move,
    Kind.FREE: _free,
    Kind.PREFILL: _ran,
    Kind.DECODE: _ran,
    Kind.PREEMPT: _preempt,
    Kind.SWAP_OUT: _swap_out,
    Kind.SWAP_IN: _swap_in,
    Kind.FINISH: _finish,
    Kind.STEP: _step,
}
