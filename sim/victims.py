"""Whom to preempt when memory runs short. Any running request may be the victim, the needy one included."""

from collections.abc import Callable
from dataclasses import dataclass

from sim.request import SequenceGroup


@dataclass(frozen=True, slots=True)
class VictimRule:
    """`pick` chooses among the running requests, oldest first; `because` completes "request r7 ...".

    Swapped requests are not running, and may be younger or older than all that are.
    """

    pick: Callable[[list[SequenceGroup]], SequenceGroup]
    because: str


def _youngest(running: list[SequenceGroup]) -> SequenceGroup:
    return running[-1]


def _oldest(running: list[SequenceGroup]) -> SequenceGroup:
    return running[0]


def _fewest_tokens(running: list[SequenceGroup]) -> SequenceGroup:
    return min(reversed(running), key=lambda group: sum(sequence.stored for sequence in group.sequences))


def _lowest_priority(running: list[SequenceGroup]) -> SequenceGroup:
    return min(reversed(running), key=lambda group: group.request.priority)


VICTIMS = {
    "youngest": VictimRule(_youngest, "is the youngest running request"),
    "oldest": VictimRule(_oldest, "is the oldest running request"),
    "fewest-tokens": VictimRule(_fewest_tokens, "has the fewest stored tokens of the running requests"),
    "lowest-priority": VictimRule(_lowest_priority, "has the lowest priority of the running requests"),
}
