"""The replay payload: frames, deltas, one clock, and the sentence with the numbers."""

import json
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from app import payload as payload_module
from app.moments import merge_clocks
from app.payload import replay_payload, verdict
from app.quiz import questions
from app.recorded import recording_of
from app.unbroken import unbroken
from sim import Config, InputError, Run, Trace, simulate
from sim.events import Kind
from sim.ledger import CLASSES
from sim.replay import State
from sim.scopes import applies
from sim.tables import real
from tests.making import random_dials, random_trace, requests

DIALS: dict[str, Any] = {"pool_tokens": 64, "block_size": 4, "max_len": 32, "timing": "unit"}


def serve(trace: Trace, *names: str, **dials: Any) -> list[Run]:
    given = {**DIALS, **dials}
    return [
        simulate(
            trace, Config(allocator=name, **{dial: given[dial] for dial in given if applies(dial, name)})
        )
        for name in names
    ]


def cells_by_frame(payload: dict[str, Any]) -> Iterator[dict[int, list[int]]]:
    """A second player, as plain as can be: cell -> [live, reserved, internal, rounding, cached] by frame."""
    side = payload["sides"][0]
    cells: dict[int, list[int]] = {}
    tables: dict[int, list[int]] = {}
    stored: dict[int, int] = {}
    for delta in side["deltas"]:
        for sequence in delta.get("drop", []):
            for cell in tables.pop(sequence):
                cells.pop(cell, None)
        for sequence in delta.get("unmap", []):
            del tables[sequence]
        for cell in delta.get("free", []):
            cells.pop(cell, None)
        for sequence, mapped in groups_of(delta.get("map", []), head=1):
            tables[sequence[0]] = mapped
        for (sequence, *content), held in groups_of(delta.get("hold", []), head=5):
            tables.setdefault(sequence, []).extend(held)
            cells |= {cell: [*content, 0] for cell in held}
        put = delta.get("put", [])
        cells |= {put[at]: put[at + 3 : at + 8] for at in range(0, len(put), 8)}
        progress = delta.get("at", [])
        stored |= {progress[at]: progress[at + 1] for at in range(0, len(progress), 3)}
        for sequence in delta.get("decode", []):
            index = stored[sequence] // side["cell_slots"] if side["cell_slots"] else 0
            cells[tables[sequence][index]][0] += 1
            cells[tables[sequence][index]][1] -= 1
            stored[sequence] += 1
        yield {cell: list(content) for cell, content in cells.items()}


def groups_of(flat: list[int], *, head: int) -> Iterator[tuple[list[int], list[int]]]:
    """`head` numbers, then a count, then so many cells, again and again."""
    while flat:
        count = flat[head]
        yield flat[:head], flat[head + 1 : head + 1 + count]
        flat = flat[head + 1 + count :]


def served(random: Random) -> Run:
    """A random run in which something runs: other dials are drawn until it does."""
    while True:
        try:
            run = simulate(random_trace(random, 15), Config(**random_dials(random)))
        except InputError:
            continue
        if run.num_steps:
            return run


def served_in_part(random: Random) -> Run:
    """A random run in which tokens are dropped, by a window or but for the heaviest."""
    while True:
        dials, num_read = random_dials(random, ["paged"]), random.randint(3, 20)
        dropping = random.choice(
            ({"window": num_read, "sinks": random.choice((0, 3))}, {"keep_recent": num_read, "keep_heavy": 3})
        )
        try:
            run = simulate(random_trace(random, 15), Config(**{**dials, **dropping}))
        except InputError:
            continue
        if any("places" in event.changes for event in run.events):
            return run


@pytest.mark.parametrize("seed", range(30))
def test_the_cells_add_up_to_the_ledger_where_tokens_are_dropped(seed: int) -> None:
    assert_cells_add_up(served_in_part(Random(seed)))


@pytest.mark.parametrize("seed", [3, 4, 9])  # in the last a prompt is found in part, with holes before it
def test_nobody_is_asked_about_blocks_that_are_read_no_more(seed: int) -> None:
    run = served_in_part(Random(seed))
    asked = {question.event: question for question in questions(recording_of(run))}
    state = State()
    for place, event in enumerate(run.events):
        if place in asked and event.kind is Kind.FREE:
            assert "places" not in event.changes
        if place in asked and event.kind is Kind.ADMIT:
            table = state.block_tables[state.names(event.request or "")[0]]
            assert isinstance(table, list)
            assert int(asked[place].answer) == len(real(table))
        state.apply(event)


@pytest.mark.parametrize("seed", range(40))
def test_the_cells_add_up_to_the_ledger_at_every_step(seed: int) -> None:
    assert_cells_add_up(served(Random(seed)))


def assert_cells_add_up(run: Run) -> None:
    payload = replay_payload([run])
    side = payload["sides"][0]
    ledgers = {event.step: event.changes["ledger"] for event in run.events if event.kind == "step"}
    num_steps = 0
    for frame, cells in enumerate(cells_by_frame(payload)):
        sums = [sum(content[part] for content in cells.values()) for part in range(5)]
        if side["columns"]["batch"][frame]:
            num_steps += 1
            ledger = ledgers[side["columns"]["step"][frame]]
            assert sums == [ledger[name] for name in ("live", "reserved", "internal", "rounding", "cached")]
        else:
            assert sums[:4] == [0, 0, 0, 0], "memory is held while nothing is to do"
    assert num_steps == run.num_steps


def test_the_columns_of_a_frame_are_the_runs_own_series() -> None:
    (run,) = serve(requests((8, 4), (9, 3), (5, 6, 40.0)), "paged")
    side = replay_payload([run])["sides"][0]
    steps = [frame for frame, batch in enumerate(side["columns"]["batch"]) if batch]
    for name in ("running", "waiting", "tokens", *CLASSES):
        column = side["columns"].get(name, [0] * len(side["deltas"]))
        assert [column[frame] for frame in steps] == run.series.column(name).tolist()


def test_a_finished_request_is_told_with_the_step_that_ended_it() -> None:
    (run,) = serve(requests((8, 3)), "paged")
    side = replay_payload([run])["sides"][0]
    last_step = max(frame for frame, batch in enumerate(side["columns"]["batch"]) if batch)
    assert [kind for kind, *_ in side["said"][last_step]] == ["finish", "free"]
    assert side["columns"]["free"][last_step] < side["pool"], "the picture shows it before it leaves"
    assert side["columns"]["free"][last_step + 1] == side["pool"]


def test_a_rejection_after_the_last_step_is_not_lost() -> None:
    (run,) = serve(requests((8, 3), (200, 3, 90.0)), "paged")
    side = replay_payload([run])["sides"][0]
    assert [kind for kind, *_ in side["said"][-1]] == ["arrive", "reject"]
    assert len(side["deltas"]) - 1 in side["alarms"]


def test_decodes_are_not_told_one_by_one() -> None:
    (run,) = serve(requests((8, 20)), "paged")
    side = replay_payload([run])["sides"][0]
    assert "decode" not in {kind for said in side["said"] for kind, *_ in said}


def test_one_clock_shows_each_side_where_it_is() -> None:
    moments, frames = merge_clocks([[0.0, 1.0, 2.0], [0.0, 1.5, 2.0]])
    assert moments == [0.0, 1.0, 1.5, 2.0]
    assert frames == [[0, 1, 1, 2], [0, 0, 1, 2]]


def test_a_step_and_the_rest_after_it_are_two_moments_of_one_time() -> None:
    moments, frames = merge_clocks([[0.0, 1.0, 1.0], [0.0, 1.0]])
    assert moments == [0.0, 1.0, 1.0]
    assert frames == [[0, 1, 2], [0, 1, 1]]


def test_the_verdict_has_the_numbers_of_the_two_reports() -> None:
    runs = serve(requests(*[(8, 8)] * 6), "max", "paged")
    wastes = [f"{run.report()['waste_percent']:.1f} %" for run in runs]
    text = verdict(runs)
    assert text.startswith(
        f"Contiguous (max) wastes {wastes[0]}, paged wastes {wastes[1]} of the memory it takes"
    )
    assert "\n" not in text


def test_a_number_and_its_unit_stay_on_one_line_where_they_are_shown() -> None:
    said = "Paged wastes 7.2 % of 4 sequences, after 4.9 s"
    assert unbroken(said) == "Paged wastes 7.2\u00a0% of 4 sequences, after 4.9\u00a0s"


def test_steps_of_unit_timing_are_not_called_modelled() -> None:
    (unit,) = serve(requests((8, 8)), "paged", timing="unit")
    (usual,) = serve(requests((8, 8)), "paged", timing="roofline")
    sides = [replay_payload([run])["sides"][0] for run in (unit, usual)]
    assert [side["times"] for side in sides] == ["a step is 1 s", "times modelled"]


def test_cached_blocks_are_not_called_waste() -> None:
    trace = Trace.read("shared-prefix")
    config = Config(pool_tokens=4096, max_len=512, prefix_cache="hash")
    run = simulate(trace, config)
    ledger = run.report()["ledger"]
    assert ledger["cached"] > 0
    taken = ledger["pool"] - ledger["free"] - ledger["cached"]
    assert f"wastes {100 * (1 - ledger['live'] / taken):.1f} %" in verdict([run])
    assert "evictable cached blocks apart" in verdict([run])


def test_sides_of_one_name_are_told_apart_by_their_source() -> None:
    runs = serve(requests((8, 8)), "paged", "paged")
    runs[1].source = "measured"
    assert "paged, measured wastes" in verdict(runs)
    sides = replay_payload(runs)["sides"]
    assert [side["source"] for side in sides] == ["simulated", "measured"]
    assert [side["name"] for side in sides] == ["paged, simulated", "paged, measured"]


def test_sides_of_one_name_are_told_apart_by_the_dials_in_which_they_differ() -> None:
    windowed, whole = (serve(requests((8, 8)), "paged", **dials)[0] for dials in ({"window": 4}, {}))
    text = verdict([windowed, whole])
    assert text.startswith("Paged, window 4 wastes") and "paged, no window wastes" in text


def test_the_replay_opens_where_the_sides_differ_most() -> None:
    runs = serve(requests(*[(8, 8)] * 6), "max", "paged")
    payload = replay_payload(runs)
    one, other = (side["columns"] for side in payload["sides"])
    gaps = [
        abs(one["live"][a] - other["live"][b])
        for a, b in zip(*payload["clock"]["frames"], strict=True)
        if one["running"][a] and other["running"][b]
    ]
    start = [shown[payload["start"]] for shown in payload["clock"]["frames"]]
    assert abs(one["live"][start[0]] - other["live"][start[1]]) == max(gaps) > 0


def test_the_payload_is_plain_compact_and_deterministic() -> None:
    trace = requests(*[(30, 2 + index % 7, index) for index in range(200)])
    texts = [json.dumps(replay_payload(serve(trace, "max", "paged")), allow_nan=False) for _ in range(2)]
    assert texts[0] == texts[1]
    num_events = sum(len(run.events) for run in serve(trace, "max", "paged"))
    assert len(texts[0]) < 100 * num_events


def test_sides_with_other_requests_are_refused() -> None:
    one, other = serve(requests((8, 3)), "paged"), serve(requests((8, 4)), "paged")
    with pytest.raises(InputError, match="must serve the same requests"):
        replay_payload([*one, *other])


def test_a_run_without_events_is_refused() -> None:
    run = simulate(requests((8, 3)), Config(**DIALS), record=False)
    with pytest.raises(InputError, match="nothing to replay"):
        replay_payload([run])


def test_a_run_too_long_to_draw_is_refused_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payload_module, "MAX_EVENTS", 10)
    with pytest.raises(InputError, match="take fewer requests"):
        replay_payload(serve(requests((8, 20)), "paged"))
