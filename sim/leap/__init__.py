"""The simulator's fast way (DESIGN section 9): leap over steps in which nothing is decided.

Between two decisions every running sequence stores one token a step, so the next end, the next shortage
and the duration of each step between follow in closed form. `sim.serve` stays as the slow reference:
report and series of both are equal, number for number, and `tests/sim/test_leap.py` says so.

    cover     which runs can leap, and why others cannot
    run       from a trace to a finished run
    server    the rules of DESIGN section 3, at a cost of what changes, not of what runs
    memory    the pool as numbers: blocks by count, ranges by real placement
    clock     how long steps took, worked out when somebody needs the time
    journal   what the server writes down
    series    one row a step, folded from the journal for those who ask
    carry     from one server to the next, for a trace that is served window by window
    stream    such a trace, from pieces to a finished run
"""

from sim.leap.cover import can_leap, why_not
from sim.leap.run import leap

__all__ = ["can_leap", "leap", "why_not"]
