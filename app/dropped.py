"""Blocks of runs that drop tokens: what each slot holds, told slot by slot.

Which tokens a query still reads is `sim.horizon`'s to say. They may lie anywhere in a block, so here its
slots need not come in the usual order.
"""

from collections.abc import Iterable
from itertools import groupby
from typing import NamedTuple

from app.cells import Content
from sim import Request
from sim.horizon import Horizon

LIVE, RESERVED, INTERNAL = range(3)  # places in `Content`


class Holding(NamedTuple):
    """A block in the table of one sequence.

    Its first slot has position `start` there; `written` tokens are there, `num_dropped` of them are dropped.
    """

    request: Request
    start: int
    written: int
    num_dropped: int


def slot_classes(horizon: Horizon, holdings: Iterable[Holding], block_size: int) -> list[int]:
    """The class of each slot: live if anyone reads it; else, if anyone has written it, held in vain."""
    classes = [INTERNAL] * block_size
    for offset in range(block_size):
        is_written = is_awaited = False
        for request, start, written, num_dropped in holdings:
            position = start + offset
            if position >= written:
                is_awaited |= position < request.final_tokens
                continue
            is_written = True
            if not horizon.is_dropped(request, position, position + 1, num_dropped):
                classes[offset] = LIVE
        if is_awaited and not is_written:
            classes[offset] = RESERVED
    return classes


def content_of(classes: list[int]) -> Content:
    """How many slots there are of each class."""
    return Content(classes.count(LIVE), classes.count(RESERVED), classes.count(INTERNAL), 0)


def runs_of(classes: list[int]) -> list[int]:
    """[class, slots in a row, ...]; empty where they come in the usual order."""
    if classes == sorted(classes):
        return []
    return [value for name, group in groupby(classes) for value in (name, len(list(group)))]
