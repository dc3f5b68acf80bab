"""Requests whose true output length says who looks at it (invariant 7).

The length is the model's secret: it may be read by what plays the model, by observers, and by the Oracle and
Pow2 baselines, whose definition it is. Everyone else in `sim` decides without it, or is caught here.
"""

import sys
from dataclasses import fields
from types import FrameType

from sim.request import Request

SELF = "sim.request"
ALLOWED = {  # by module
    SELF,  # asks whether it has ended
    "sim.columns",  # plays the model for decodes
    "sim.alloc.reservations",
    "sim.alloc.usage",
    "sim.outcomes",
    "sim.report",
    "sim.veil",
}


class Peeked(AssertionError):
    """Somebody who decides looked at the true output length."""


class VeiledRequest(Request):
    """Stands for a request, and tells who looks at its length."""

    __slots__ = ()

    @property
    def output(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
        if not may_look(frame):
            who = f"{frame.f_globals['__name__']}.{frame.f_code.co_qualname}"
            raise Peeked(
                f"invariant 7: {who} looks at the true output length of {self.id}: it must decide without it"
            )
        return _OUTPUT.__get__(self)


_OUTPUT = Request.__dict__["output"]


def veiled(request: Request) -> Request:
    """The same request, guarded."""
    guarded = object.__new__(VeiledRequest)
    for item in fields(Request):
        Request.__dict__[item.name].__set__(guarded, getattr(request, item.name))
    return guarded


def may_look(frame: FrameType | None) -> bool:
    """Whether the code that runs in `frame` may know how long an output is."""
    while frame and _place(frame) == (SELF, "final_tokens"):  # asks for someone else
        frame = frame.f_back
    if frame is None:
        return True
    module, _ = _place(frame)
    is_decider = module.startswith("sim.") and not module.startswith("sim.trace")
    return not is_decider or module in ALLOWED


def _place(frame: FrameType) -> tuple[str, str]:
    return frame.f_globals["__name__"], frame.f_code.co_name
