"""A real model ends where it wants: the executor says so, and the scheduler learns it no earlier."""

from dataclasses import replace
from random import Random

from sim import Config, Trace, simulate
from sim.batch import Batch
from sim.events import Event, EventLog, Kind
from sim.request import Request
from sim.serve import serve
from tests.making import random_trace, request

DIALS = {"pool_tokens": 160, "block_size": 4, "max_len": 128, "timing": "unit", "max_seqs": 6}


class Talker:
    """Executes nothing in one second a step; says of each request when it has ended."""

    def __init__(self, lengths: dict[str, int]) -> None:
        self._lengths = lengths

    def execute(self, batch: Batch) -> float:
        for chunk in batch.chunks:
            if chunk.emits and chunk.sequence.emitted + 1 == self._lengths[chunk.group.request.id]:
                chunk.group.has_ended = True
        return 1.0


class Chooser:
    """Executes nothing; says which beams go on."""

    def __init__(self, parents: list[list[int]]) -> None:
        self._parents = parents

    def execute(self, batch: Batch) -> float:
        for chunk in batch.chunks:
            if chunk.emits and chunk.sequence.emitted:
                chunk.group.beam_parents = self._parents[chunk.sequence.emitted - 1]
        return 1.0


def steps_of(events: list[Event]) -> list[Event]:
    """All but the ledgers, whose reserved and internal slots an observer splits by the true length."""
    return [event for event in events if event.kind is not Kind.STEP]


def told(trace: Trace) -> tuple[Trace, dict[str, int]]:
    """The same requests with an output that is but a ceiling, and where each will really end."""

    def ceiling(one: Request) -> Request:
        return replace(one, output=one.max_tokens, beam_parents=None)

    lengths = {one.id: one.output for one in trace.requests}
    return Trace(trace.name, tuple(ceiling(one) for one in trace.requests)), lengths


def test_requests_that_end_by_their_model_run_as_those_whose_trace_knows_the_length() -> None:
    for seed in range(20):
        trace = random_trace(Random(seed), 15, longest=20)
        trace = Trace(trace.name, tuple(replace(one, beam=1, beam_parents=None) for one in trace.requests))
        config = Config(
            **DIALS, preempt=("swap", "recompute")[seed % 2], prefix_cache=("hash", "off")[seed % 2]
        )
        known = simulate(trace, config, step_by_step=True)
        blind, lengths = told(trace)
        log = EventLog()
        run = serve(blind, config, Talker(lengths), log, source="made", clock="modelled", check=True)
        assert [row["emitted"] for row in run.requests] == [row["emitted"] for row in known.requests]
        assert steps_of(run.events) == steps_of(known.events)


def test_the_model_chooses_the_beams_that_go_on() -> None:
    parents = [[0, 0], [1, 1], [0, 1]]
    by_trace = request("r0", 10, 4, beam=2, beam_parents=tuple(map(tuple, parents)))
    by_model = request("r0", 10, 4, beam=2)
    config = Config(**DIALS)
    expected = simulate(Trace("made", (by_trace,)), config, step_by_step=True)
    run = serve(
        Trace("made", (by_model,)), config, Chooser(parents), EventLog(), source="made", clock="modelled"
    )
    assert run.events == expected.events
    assert any(event.kind is Kind.COPY for event in run.events)
