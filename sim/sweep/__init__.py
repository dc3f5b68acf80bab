"""Sweeps: many configurations, one row each, whatever happens on the way.

plan      a grid and a list of dials become configurations; which of them are different
work      one configuration becomes one row
nursery   runs each configuration in a process of its own, under a memory limit
alone     how a worker asks its nursery
store     rows in one SQLite file, each written whole or not at all
pool      the default executor: a process pool that leaves nobody behind
run       hands what is not done yet to an executor, and writes rows as they come
"""

from sim.sweep.alone import work_alone
from sim.sweep.plan import Plan
from sim.sweep.pool import ProcessPool
from sim.sweep.run import SweepStopped, run_sweep
from sim.sweep.store import Store, open_store
from sim.sweep.work import work

__all__ = ["Plan", "ProcessPool", "Store", "SweepStopped", "open_store", "run_sweep", "work", "work_alone"]
