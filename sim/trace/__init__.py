"""Traces: reading public formats, generating, filtering, writing.

`Trace` is what the rest of PageLab uses; `FORMATS` and `BUILTINS` list what can be read.
"""

from sim.trace.builtin import BUILTINS, Builtin, list_builtins
from sim.trace.choice import TraceChoice
from sim.trace.formats import FORMATS, Format
from sim.trace.generate import generate
from sim.trace.lengths import PAPER_FILTER, LengthFilter
from sim.trace.quantiles import LENGTHS
from sim.trace.trace import Trace

__all__ = [
    "BUILTINS",
    "FORMATS",
    "LENGTHS",
    "PAPER_FILTER",
    "Builtin",
    "Format",
    "LengthFilter",
    "Trace",
    "TraceChoice",
    "generate",
    "list_builtins",
]
