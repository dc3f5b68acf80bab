"""From one server to the next, so that a trace of any length is served with a few requests in memory.

        the server before                               the next one
    0 ........ gone | in service | waiting              0 in service | waiting | newcomers

Requests that have ended are left behind; the others keep their order under smaller numbers. Nothing else
changes: what happens next is what would have happened. `tests/sim/test_leap_stream.py` says so.

A window ends where new requests have just been admitted, which happens only while nobody is swapped or sent
back: who is in service then runs.
"""

from sim.clock import to_ps
from sim.closed_timing import ClosedTiming
from sim.config import Config
from sim.leap.memory import Ranges
from sim.leap.server import LeapServer
from sim.request import Request


def in_service(server: LeapServer) -> list[int]:
    """Who has been admitted and has not ended, oldest first: running, swapped, or sent back."""
    running = server.running
    there = {index for index, _ in running.decoding.members()}
    there.update(running.swapped, server.waiting.returned)
    if running.prefilling is not None:
        there.add(running.prefilling)
    return sorted(there)


def carry_over(
    before: LeapServer,
    requests: list[Request],
    newcomers: list[Request],
    config: Config,
    timing: ClosedTiming,
) -> tuple[LeapServer, list[Request], list[int]]:
    """The next server, its requests, and the places in `requests` of those that were in service.

    `before` has stopped, and served `requests`.
    """
    assert not before.running.swapped and not before.waiting.returned, "a window ended before all came back"
    places = in_service(before)
    num_taken = before.waiting.num_taken
    kept = [*(requests[place] for place in places), *requests[num_taken:], *newcomers]
    after = LeapServer(kept, [to_ps(request.arrival_s) for request in kept], config, timing)
    new_index = {place: index for index, place in enumerate(places)}
    _carry_time_and_queue(before, after, new_index)
    _carry_memory(before, after, new_index)
    _carry_running(before, after, new_index)
    return after, kept, places


def _carry_time_and_queue(before: LeapServer, after: LeapServer, new_index: dict[int, int]) -> None:
    after.start_ps = before.clock.now_ps()
    after.clock.skip(after.start_ps)
    after.waiting.take_up(len(new_index))
    after.is_filling = before.is_filling
    journal = after.journal
    journal.stranded = [(0, before.journal.stranded[-1][1])]
    journal.num_in_service = len(new_index)
    for place, index in new_index.items():
        journal.preemptions[index] = before.journal.preemptions[place]


def _carry_memory(before: LeapServer, after: LeapServer, new_index: dict[int, int]) -> None:
    memory = before.memory
    if isinstance(memory, Ranges):
        assert isinstance(after.memory, Ranges)
        memory.renumber(new_index, after.memory.lengths)
    after.use(memory)


def _carry_running(before: LeapServer, after: LeapServer, new_index: dict[int, int]) -> None:
    old, new = before.running, after.running
    new.count = old.count
    if old.prefilling is not None:
        new.prefilling = new_index[old.prefilling]
        new.prefilled, new.num_input = old.prefilled, old.num_input
    for place, index in new_index.items():
        new.num_emitted[index] = old.num_emitted[place]
    new.decoding.rounds = old.decoding.rounds
    for place, stored in old.decoding.members():
        new.decoding.start(new_index[place], stored)
        after.journal.carry(new_index[place], stored)
