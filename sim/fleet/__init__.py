"""Several replicas behind a router, on one clock. `simulate_fleet` is `simulate` for more than one server.

config     the dials: how many, who chooses, whether they lend
router     which replica a request goes to
replica    one server, and what the router may know of it
lending    free blocks on loan to a neighbour, and what reading them over a link costs
run        the clock that all share, and the finished run
report     one report of all replicas
"""

from sim.fleet.config import Fleet
from sim.fleet.router import ROUTERS
from sim.fleet.run import FleetRun, simulate_fleet

__all__ = ["ROUTERS", "Fleet", "FleetRun", "simulate_fleet"]
