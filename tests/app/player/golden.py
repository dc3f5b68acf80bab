"""Golden data for the player's tests: replays, and what every slot is at every step by the slow rule.

`python -m tests.app.player.golden` prints it as JSON; the JavaScript tests call that.
"""

import csv
import json
from io import StringIO
from itertools import groupby
from random import Random
from typing import Any

from app.payload import replay_payload
from sim import Config, InputError, Run, Trace, simulate
from sim.events import Kind
from sim.replay import SlotRange
from sim.scopes import applies
from sim.tables import HOLE
from tests.making import random_dials, random_trace, requests

Json = dict[str, Any]
FREE = [-1, "free"]


def small_cases() -> list[tuple[Trace, Json, tuple[str, str]]]:
    """Trace, dials and the two allocators. What each shows is said beside it."""
    unit = {"timing": "unit", "block_size": 4}
    pair = ("max", "paged")
    return [
        # recompute: the third is preempted and comes back with a 9-token prefill
        (requests((8, 4), (8, 4), (8, 4)), {**unit, "pool_blocks": 6, "max_len": 12}, pair),
        # swap out and in
        (requests((8, 8), (8, 8)), {**unit, "pool_blocks": 4, "preempt": "swap", "max_len": 16}, pair),
        # nothing to do between two requests, and a third that is rejected when all is over
        (requests((5, 3), (5, 3, 50.5), (99, 9, 90.0)), {**unit, "pool_blocks": 8, "max_len": 16}, pair),
        # a prompt in chunks, and rounding
        (
            requests((21, 30), (3, 30)),
            {**unit, "pool_tokens": 128, "max_len": 60, "chunked_prefill": True, "max_batch_tokens": 6},
            ("oracle", "paged"),
        ),
        # more than one keyframe
        (requests((2, 100), (2, 190, 3.0)), {**unit, "pool_tokens": 512, "max_len": 256}, ("pow2", "paged")),
        # pages, whose tails are rounding
        (
            requests((8, 4), (9, 6)),
            {"timing": "unit", "pool_tokens": 64, "max_len": 32, "page_size": "64KiB"},
            ("virtual", "paged"),
        ),
        # a window: blocks are given back, and of the next ones some tokens are read no more
        (
            requests((21, 30), (3, 30)),
            {**unit, "pool_tokens": 128, "max_len": 60, "window": 9, "sinks": 2}, ("max", "paged"),
        ),
        # heavy hitters: what is read no more lies anywhere
        (
            requests((21, 30), (5, 30)),
            {**unit, "pool_tokens": 128, "max_len": 60, "keep_recent": 6, "keep_heavy": 5}, ("max", "paged"),
        ),
    ]  # fmt: skip


def random_cases(count: int) -> list[tuple[Trace, Json, tuple[str, str]]]:
    """Tight servers under random dials. Combinations that `Config` refuses are passed over."""
    cases: list[tuple[Trace, Json, tuple[str, str]]] = []
    seed = 0
    while len(cases) < count:
        random = Random(seed := seed + 1)
        dials = random_dials(random)
        pair = (dials.pop("allocator"), "paged")
        trace = random_trace(random, 12)
        try:
            runs = [simulate(trace, config_of(name, dials)) for name in pair]
        except InputError:
            continue
        if all(run.num_steps for run in runs):
            cases.append((trace, dials, pair))
    return cases


def config_of(allocator: str, dials: Json) -> Config:
    """The dials that the allocator has a use for."""
    return Config(
        allocator=allocator, **{name: value for name, value in dials.items() if applies(name, allocator)}
    )


def slots_of(run: Run, step: int) -> list[list[Any]]:
    """[owner's number or -1, class] of every slot after `step`, told slot by slot from the block tables.

    Of a slot that several hold: live if one has written it, else reserved if one of them will. Nobody shares
    where tokens are dropped.
    """
    horizon, inputs = run.config.horizon, inputs_at(run, step)
    state, size = run.at(step), run.config.slots_per_block or 1
    rank = {"free": 0, "rounding": 1, "internal": 2, "reserved": 3, "live": 4}
    slots: list[list[Any]] = [FREE] * run.config.num_slots
    for block in state.cached:
        slots[block * size : (block + 1) * size] = [[-1, "cached"]] * size
    for number, request in enumerate(run.trace.requests):
        names = state.names(request.id)
        for name in names:
            table = state.block_tables.get(name, [])
            if isinstance(table, SlotRange):
                addresses, reserved = range(table.start, table.start + table.length), table.reserved
            else:
                addresses = [
                    HOLE if block == HOLE else block * size + offset
                    for block in table
                    for offset in range(size)
                ]
                # pages are not asked for: what lies behind the last token is there because they round up
                reserved = request.final_tokens if run.config.allocator == "virtual" else len(addresses)
            stored = min(state.stored.get(name, 0), state.stored.get(names[0], 0))
            count = horizon.num_dropped(stored, is_prefilling=stored < inputs.get(request.id, 0))
            dropped = set(horizon.drop_order(request, 0, count))
            for position, address in enumerate(addresses):
                if address == HOLE:
                    assert position in dropped
                    continue
                if position < stored:
                    kind = "internal" if position in dropped else "live"
                elif position < min(request.final_tokens, reserved):
                    kind = "reserved"
                else:
                    kind = "internal" if position < reserved else "rounding"
                if rank[kind] > rank[slots[address][1]]:
                    slots[address] = [number, kind]
    return slots


def inputs_at(run: Run, step: int) -> dict[str, int]:
    """Tokens that the last admission of each request up to `step` had to have stored."""
    admitted = [event for event in run.events if event.kind is Kind.ADMIT and event.step <= step]
    return {event.request or "": event.changes["tokens"] + event.changes["hit"] for event in admitted}


def run_lengths(slots: list[list[Any]]) -> list[list[Any]]:
    """[owner, class, how many slots in a row]."""
    return [[*slot, len(list(group))] for slot, group in groupby(slots)]


def queues_of(run: Run, step: int) -> Json:
    """The queues after `step`, by number of request."""
    state = run.at(step)
    numbers = {request.id: number for number, request in enumerate(run.trace.requests)}
    return {
        name: [numbers[request] for request in getattr(state, name)]
        for name in ("waiting", "running", "swapped")
    }


def series_of(run: Run) -> list[dict[str, float]]:
    """What `--series` writes, as numbers."""
    text = StringIO()
    run.series.write_csv(text)
    text.seek(0)
    return [{name: float(value) for name, value in row.items()} for row in csv.DictReader(text)]


def golden(trace: Trace, dials: Json, pair: tuple[str, str]) -> Json:
    """A replay, and for each side the truth about each step."""
    runs = [simulate(trace, config_of(name, dials)) for name in pair]
    steps = [range(run.num_steps + 1) for run in runs]
    return {
        "replay": replay_payload(runs),
        "series": [series_of(run) for run in runs],
        "truth": [
            [{"slots": run_lengths(slots_of(run, step)), **queues_of(run, step)} for step in own]
            for run, own in zip(runs, steps, strict=True)
        ],
    }


def golden_json() -> str:
    """All cases."""
    return json.dumps([golden(*case) for case in (*small_cases(), *random_cases(8))])


if __name__ == "__main__":
    print(golden_json())
