"""Sequences with the block tables that the paged allocator really gave them, each just before it leaves."""

from dataclasses import dataclass

from sim import Config, Trace, simulate
from sim.replay import State
from sim.tables import SlotRange


@dataclass(frozen=True, slots=True)
class Held:
    """One sequence at the last step in which it runs."""

    name: str
    step: int
    table: list[int]
    num_tokens: int


def sequences(trace: Trace, *, pool_tokens: int, block_size: int) -> dict[str, Held]:
    """By name, longest first. InputError as `simulate` raises it."""
    run = simulate(trace, Config(pool_tokens=pool_tokens, block_size=block_size))
    found: dict[str, Held] = {}
    for state in run.replay.states():
        found |= {name: held for name in state.block_tables if (held := _held(state, name))}
    return dict(sorted(found.items(), key=lambda item: -item[1].num_tokens))


def _held(state: State, name: str) -> Held | None:
    table, num_tokens = state.block_tables[name], state.num_written(name)
    if isinstance(table, SlotRange) or not num_tokens:
        return None
    return Held(name, state.step, list(table), num_tokens)
