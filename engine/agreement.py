"""Simulated against measured, step by step: the report's `agreement`, and the first thing that differs.

The simulated side is rebuilt from its event log alone; the measured side is what the probe read from memory.
"""

from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np

from engine.measure import EngineFault, MeasuredRun
from engine.probe import Observation
from sim.ledger import CLASSES
from sim.replay import State
from sim.run import Run

Difference = dict[str, Any]  # {"step": int, "what": str}


def agreement(simulated: Run, measured: MeasuredRun) -> dict[str, Any]:
    """One entry of the report's `agreement`. `first_difference` is None when all steps agree.

    Compared at every step: block tables, the ledger's classes, and which slots hold keys and values.
    At the end, every slot must be free again on both sides, unless the run was stopped before.
    """
    entry = compare_steps(simulated, measured.observations)
    ends = () if measured.is_stopped else compare_ends(simulated, measured)
    if entry["first_difference"] is None:
        step = entry["steps_compared"] + 1
        entry["first_difference"] = next(({"step": step, "what": what} for what in ends), None)
    return {**entry, "time_error_percent": time_error_percent(measured)}


def disagreement(simulated: Run, fault: EngineFault) -> dict[str, Any]:
    """The entry of a run in which the engine stopped: what differed before that, or the stop itself."""
    entry = compare_steps(simulated, fault.observations)
    stop = {"step": fault.step, "what": str(fault)}
    return {**entry, "first_difference": entry["first_difference"] or stop, "time_error_percent": None}


def compare_steps(simulated: Run, observations: list[Observation]) -> dict[str, Any]:
    """What the two sides' common steps have in common, and the first difference."""
    first: Difference | None = None
    tables_identical = True
    largest = num_compared = 0
    block_size = simulated.config.slots_per_block or 1  # a range needs none
    for state, observation in zip(simulated.replay.states(), observations, strict=False):
        num_compared += 1
        in_tables = list(compare_tables(state, observation))
        tables_identical = tables_identical and not in_tables
        largest = max(largest, ledger_distance(state, observation))
        if first is None:
            in_memory = compare_memory(state, observation, block_size)
            found = chain(in_tables, in_memory, compare_ledgers(state, observation))
            first = next(({"step": state.step, "what": what} for what in found), None)
    return {
        "allocator": simulated.config.allocator,
        "steps_compared": num_compared,
        "block_tables_identical": tables_identical,
        "ledger_max_abs_diff_slots": largest,
        "first_difference": first,
    }


def compare_tables(state: State, observation: Observation) -> Iterator[str]:
    """What differs between the log's block tables and those in the table tensor."""
    for request in [
        *state.block_tables,
        *(r for r in observation.block_tables if r not in state.block_tables),
    ]:
        simulated, measured = state.block_tables.get(request), observation.block_tables.get(request)
        if simulated != measured:
            yield f"block table of {request}: simulated {simulated}, measured {measured}"


def compare_memory(state: State, observation: Observation, block_size: int) -> Iterator[str]:
    """What differs between the slots that should hold keys and values and those that do."""
    expected = state.written(observation.ledger.pool, block_size)
    wrong = np.flatnonzero(expected != observation.written())
    if len(wrong):
        slot = int(wrong[0])
        is_missing = (
            "should hold keys and values and is empty" if expected[slot] else "should be empty and is not"
        )
        yield f"slot {slot} ({owner_of(state, slot, block_size)}) {is_missing}; {len(wrong)} slots differ"
    faults = observation.faults
    if not faults.are_none:
        yield (
            f"{faults.torn} slots written in part, {faults.stray} written that nobody holds, "
            f"{faults.gaps} out of line, {faults.shared} with two owners; the first is {faults.first_slot}"
        )


def owner_of(state: State, slot: int, block_size: int) -> str:
    """Who stores what in a slot, for people."""
    for request in state.block_tables:
        places = np.flatnonzero(state.slots(request, block_size) == slot)
        if len(places):
            return f"token {places[0]} of {request}"
    return "nobody's token"


def compare_ledgers(state: State, observation: Observation) -> Iterator[str]:
    """Which classes of the two ledgers differ."""
    for name in CLASSES:
        simulated, measured = state.ledger[name], getattr(observation.ledger, name)
        if simulated != measured:
            yield f"{name}: simulated {simulated} slots, measured {measured}"


def ledger_distance(state: State, observation: Observation) -> int:
    """The largest difference of any class, in slots."""
    return max(abs(state.ledger[name] - getattr(observation.ledger, name)) for name in CLASSES)


def compare_ends(simulated: Run, measured: MeasuredRun) -> Iterator[str]:
    """What differs once every request has left."""
    if simulated.num_steps != measured.num_steps:
        yield f"simulated {simulated.num_steps} steps, measured {measured.num_steps}"
    for run in (simulated, measured):
        if run.free_at_end != run.config.num_slots:
            lost = run.config.num_slots - run.free_at_end
            yield f"{lost} of {run.config.num_slots} slots are not free at the end of the {run.source} run"


def time_error_percent(measured: MeasuredRun) -> float | None:
    """How much the timing model's step times differ from the clock's, in percent of the clock's.

    None when the clock itself drove the schedule, or when the model only counts steps (`unit`).
    Negative: the model is too fast.
    """
    if measured.clock == "measured" or measured.config.timing == "unit":
        return None
    modelled = float(measured.series.column("duration").sum())
    clocked = sum(measured.measured_seconds)
    return 100.0 * (modelled / clocked - 1.0) if clocked else None
