"""What a player draws: cells, and the sequences that hold them."""

from dataclasses import dataclass
from typing import NamedTuple

from sim import Request

NOBODY = -1  # the owner of a cached cell


class Content(NamedTuple):
    """Slots of one cell by ledger class, in the order in which they lie in it."""

    live: int
    reserved: int
    internal: int
    rounding: int


@dataclass(frozen=True, slots=True)
class Member:
    """What does not change of a sequence during a run."""

    number: int
    request: int
    first: str  # name of its request's first sequence
    final_tokens: int
    asked: Request
