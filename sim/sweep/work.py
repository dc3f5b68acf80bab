"""One configuration, one row: the only work that a sweep has to hand out."""

from dataclasses import fields
from typing import Any

from sim.config import Config
from sim.errors import InputError
from sim.report import report_run
from sim.serve import simulate
from sim.sweep.plan import Configuration
from sim.trace import Trace, TraceChoice

Row = dict[str, Any]  # "status", and "report" where it is done or "why" where it is not

DONE = "done"
REFUSED = "refused"  # the dials do not go together, or not with the trace
OUT_OF_MEMORY = "out of memory"
CRASHED = "crashed"
STATUSES = (DONE, REFUSED, OUT_OF_MEMORY, CRASHED)


def work(configuration: Configuration, trace: Trace | None = None) -> Row:
    """Simulates it in this process. The report has no `per_request`: a row is of one size.

    `trace` is what `choice_of(configuration)` reads, where somebody has it already.
    """
    try:
        config = config_of(configuration)
        run = simulate(trace or read_trace(configuration), config, record=False)
    except InputError as error:
        return {"status": REFUSED, "why": str(error)}
    return {"status": DONE, "report": report_run(run, with_requests=False)}


def config_of(configuration: Configuration) -> Config:
    """Raises InputError for dials that do not go together."""
    names = {item.name for item in fields(Config)}
    return Config(**{name: value for name, value in configuration.items() if name in names})


def choice_of(configuration: Configuration) -> TraceChoice:
    """The part of it that says which requests."""
    names = {item.name for item in fields(TraceChoice)}
    return TraceChoice(**{name: value for name, value in configuration.items() if name in names})


def read_trace(configuration: Configuration) -> Trace:
    """Raises InputError for a trace that cannot be read."""
    return choice_of(configuration).read(configuration.get("seed", 0))
