"""The soak of bench/soak.py, short: long-lived servers end every burst with all slots free, and do not grow.

It found the beams' draws, of which a few kilobytes stayed for every beam search that ever ran.
"""

from bench import soak
from sim import Config, simulate
from sim.beam import BeamModel
from tests.making import request


def test_five_thousand_requests_leave_every_slot_free_and_no_memory_taken():
    found = soak.soak(5_000)
    legs = found["legs"].values()
    assert sum(tally.requests for tally in legs) == 5_000
    for name in ("preemptions", "swapped_blocks", "copies", "hit_tokens", "rejected"):
        assert any(getattr(tally, name) for tally in legs), f"the soak went through no {name}"


def test_nothing_of_a_beam_search_stays_when_it_has_ended(monkeypatch):
    made: list[BeamModel] = []
    init = BeamModel.__init__

    def remember(self: BeamModel, seed: int) -> None:
        init(self, seed)
        made.append(self)

    monkeypatch.setattr(BeamModel, "__init__", remember)
    from sim import Trace

    trace = Trace("beams", tuple(request(f"r{n}", 5, 7, beam=3) for n in range(4)))
    simulate(trace, Config(pool_tokens=400, max_len=64, timing="unit"), step_by_step=True)
    assert made
    assert all(not beams._scores and not beams._random for beams in made)
