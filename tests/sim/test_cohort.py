"""The tight loops of decode steps give what the scheduler's own loops give: events, report, series."""

from random import Random

import pytest

from sim import Config, simulate
from sim.alloc import RESERVATIONS
from sim.choices import COMPACTION, TABLES
from sim.cohort import CohortScheduler, covers
from sim.scheduler import Scheduler
from tests.making import random_dials, random_rows, requests


def random_config(random: Random) -> Config:
    """One that the tight loops know: nothing is cached."""
    dials = random_dials(random, ("paged", "paged", "paged", *RESERVATIONS)) | {"prefix_cache": "off"}
    if dials["allocator"] == "paged":
        dials["table"] = random.choice(list(TABLES))
    else:
        dials["compaction"] = random.choice(list(COMPACTION))
    if dials.get("preempt") == "swap" and dials["timing"] == "roofline":
        dials["link"] = random.choice((None, "1GB/s"))
    return Config(**dials)


@pytest.mark.parametrize("seed", range(150))
def test_both_schedulers_write_the_same_events_and_report(seed: int):
    random = Random(seed)
    trace = requests(*random_rows(random, 25))
    config = random_config(random)
    assert covers(trace, config)
    slow = simulate(trace, config, step_by_step=True, check=True)
    fast = simulate(trace, config, check=True)
    for one, other in zip(fast.events, slow.events, strict=True):
        assert one == other
    assert fast.report() == slow.report()
    assert list(fast.series.rows()) == list(slow.series.rows())


def test_a_dial_that_the_tight_loops_do_not_know_keeps_to_the_scheduler():
    trace = requests((8, 8))
    assert covers(trace, Config(allocator="paged"))
    assert not covers(trace, Config(allocator="paged", prefix_cache="hash"))


def test_several_sequences_of_a_request_keep_to_the_scheduler():
    from sim import Request, Trace

    sampled = Request(id="r0", arrival_s=0.0, prompt=8, output=8, max_tokens=8, n=2)
    assert not covers(Trace("sampled", (sampled,)), Config())


def test_a_full_house_of_decodes_makes_no_chunks(monkeypatch: pytest.MonkeyPatch):
    num_chunks: list[int] = []
    original = Scheduler.advance

    def advance(self, batch):
        num_chunks.append(len(batch.chunks))
        original(self, batch)

    monkeypatch.setattr(Scheduler, "advance", advance)
    assert issubclass(CohortScheduler, Scheduler)
    simulate(requests((8, 5), (8, 5)), Config(timing="unit"))
    assert num_chunks == [2, 0, 0, 0, 0]
