"""PageLab's model of KV-cache memory: traces in, an event log and a report out. Imports no tensors."""

from sim.config import Config
from sim.errors import InputError
from sim.request import Request
from sim.run import Run
from sim.serve import simulate
from sim.trace import Trace
from sim.version import VERSION as __version__

__all__ = ["Config", "InputError", "Request", "Run", "Trace", "__version__", "simulate"]
