"""From a run's log to what a player must be told: display deltas, one a frame, and keyframes.

A frame is a picture: `State` after a step's writes, or the empty pool while nothing is to do. A cell is
what a block table lists: a block, or a whole contiguous range (named by its first slot). A request is named
by its number, its place in the trace. A delta leads from one frame to the next; all its keys are optional:

    drop      [request, ...]                      its block table is gone
    hold      [request, live, reserved, internal, rounding, n, cell, ... n of them, ...]
                                                  cells of this content join the end of its table
    put       [cell, live, reserved, internal, rounding, ...]     the content of a held cell changed
    at        [request, stored, emitted, ...]     how far it is
    decode    [request, ...]                      one more token stored and emitted: the cell of that
                                                  position has one `live` more and one `reserved` less
    leave     [request, ...]                      forget how far it was
    waiting, running, swapped   [[request that goes, ...], [index, request that comes, ...]]

A keyframe is the delta from nothing to its frame. All rules of classification are here; a player only adds
up. That the cells sum to the run's own ledger at every step is a test.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from sim.replay import BlockTable, SlotRange, State

KEYFRAME_FRAMES = 64
QUEUES = ("waiting", "running", "swapped")

Delta = dict[str, list[Any]]


class Content(NamedTuple):
    """Slots of one cell by ledger class, in the order in which they lie in it."""

    live: int
    reserved: int
    internal: int
    rounding: int


class DeltaEncoder:
    """Knows what does not change during a run: the requests' numbers, their final lengths, the block size."""

    def __init__(self, final_tokens: dict[str, int], block_size: int) -> None:
        self.numbers = {request: number for number, request in enumerate(final_tokens)}
        self._final_tokens = final_tokens
        self._block_size = block_size

    def keyframe(self, state: State) -> Delta:
        """All of `state`, as the delta from nothing."""
        return self.delta(State(), state, state.emitted)

    def delta(self, before: State, after: State, touched: Iterable[str]) -> Delta:
        """What changed. `touched` names every request that an event between the two was about."""
        delta: Delta = {}
        for request in touched:
            self._add_request(delta, before, after, request)
        for name in QUEUES:
            old, new = getattr(before, name), getattr(after, name)
            if old != new:
                delta[name] = self._queue_edit(old, new)
        return delta

    def contents(
        self, request: str, table: BlockTable, stored: int, first: int = 0
    ) -> list[tuple[int, Content]]:
        """Cell and content of the table's entries from `first` on, with `stored` tokens written."""
        final = self._final_tokens[request]
        if isinstance(table, SlotRange):
            to_fill = min(table.reserved, final) - stored
            internal = table.reserved - stored - to_fill
            rounding = table.length - table.reserved
            return [(table.start, Content(stored, to_fill, internal, rounding))][first:]
        size = self._block_size
        return [
            (cell, _block_content(index * size, size, stored, final))
            for index, cell in enumerate(table[first:], start=first)
        ]

    def _add_request(self, delta: Delta, before: State, after: State, request: str) -> None:
        number = self.numbers[request]
        old, new = before.block_tables.get(request), after.block_tables.get(request)
        num_kept = _num_kept(old, new)
        if old is not None and num_kept == 0:
            delta.setdefault("drop", []).append(number)
        if new is not None:
            self._add_cells(delta, request, new, after.stored.get(request, 0), num_kept)
        was = _progress(before, request)
        now = _progress(after, request)
        if now is None:
            if was is not None:
                delta.setdefault("leave", []).append(number)
        elif now != was:
            is_one_more = was is not None and now == (was[0] + 1, was[1] + 1) and old is new
            if is_one_more and new is not None and self._fills_reserved(request, new, now[0]):
                delta.setdefault("decode", []).append(number)
                return
            delta.setdefault("at", []).extend((number, *now))
            if was is not None and old is not None and new is not None and num_kept:
                self._add_changes(delta, request, old, new, was[0], now[0])

    def _add_cells(self, delta: Delta, request: str, table: BlockTable, stored: int, first: int) -> None:
        """New cells at the end of a table, neighbours of equal content as one group."""
        groups: list[tuple[Content, list[int]]] = []
        for cell, content in self.contents(request, table, stored, first):
            if not groups or groups[-1][0] != content:
                groups.append((content, []))
            groups[-1][1].append(cell)
        for content, cells in groups:
            delta.setdefault("hold", []).extend((self.numbers[request], *content, len(cells), *cells))

    def _add_changes(
        self, delta: Delta, request: str, old: BlockTable, new: BlockTable, was: int, now: int
    ) -> None:
        first = 0 if isinstance(new, SlotRange) else min(was, now) // self._block_size
        then = dict(self.contents(request, old, was, first))
        for cell, content in self.contents(request, new, now, first):
            if cell in then and then[cell] != content:
                delta.setdefault("put", []).extend((cell, *content))

    def _fills_reserved(self, request: str, table: BlockTable, stored: int) -> bool:
        """Whether the last token stored went where one was expected, in a cell that was held before."""
        index = 0 if isinstance(table, SlotRange) else (stored - 1) // self._block_size
        return bool(self.contents(request, table, stored - 1, index)[0][1].reserved)

    def _queue_edit(self, old: list[str], new: list[str]) -> list[list[int]]:
        staying = set(old) & set(new)
        if [one for one in old if one in staying] != [one for one in new if one in staying]:
            staying = set[str]()
        goes = [self.numbers[one] for one in old if one not in staying]
        comes = [(place, self.numbers[one]) for place, one in enumerate(new) if one not in staying]
        return [goes, [value for pair in comes for value in pair]]


def _block_content(start: int, size: int, stored: int, final: int) -> Content:
    """A block that holds positions [start, start + size) of a sequence that will store `final` tokens."""
    live = min(max(stored - start, 0), size)
    reserved = max(min(final - start, size) - live, 0)
    return Content(live, reserved, size - live - reserved, 0)


def _num_kept(old: BlockTable | None, new: BlockTable | None) -> int:
    """How many entries of `new` are those of `old`, provided that none of `old` is gone."""
    if old is None or new is None:
        return 0
    if isinstance(old, SlotRange) or isinstance(new, SlotRange):
        return int(old == new)
    return len(old) if old is new or new[: len(old)] == old else 0


def _progress(state: State, request: str) -> tuple[int, int] | None:
    stored = state.stored.get(request)
    return None if stored is None else (stored, state.emitted[request])
