"""From a run's log to what a player must be told: display deltas, one a frame, and keyframes.

A frame is a picture: `State` after a step's writes, or the pool while nothing is to do. A cell is what a
block table lists: a block, or a whole contiguous range (named by its first slot). Requests and sequences go
by number: place in the trace, and place among all sequences of the trace. A delta leads from one frame to
the next; all its keys are optional and are applied in this order:

    drop      [sequence, ...]                     its table is gone, and so are the table's cells
    unmap     [sequence, ...]                     its table is gone; others have some of its cells
    free      [cell, ...]                         nobody has it any more
    leave     [sequence, ...]                     forget how far it was
    map       [sequence, n, cell, ...]            this is its table; it shares some cells
    hold      [sequence, live, reserved, internal, rounding, n, cell, ...]
                                                  n cells of its own, of this content, join its table's end
    put       [cell, owner, refs, live, reserved, internal, rounding, cached, ...]
                                                  what a cell holds now; the owner is a request, -1 if cached
    at        [sequence, stored, emitted, ...]    how far it is
    decode    [sequence, ...]                     one more token stored and emitted: the cell of that
                                                  position has one `live` more and one `reserved` less
    waiting, running, swapped   [[request that goes, ...], [index, request that comes, ...]]

A keyframe is the delta from nothing to its frame. All rules of classification are here; a player only adds
up. That the cells sum to the run's own ledger at every step is a test.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from app.cells import NOBODY, Content, Member
from sim import Request
from sim.replay import BlockTable, SlotRange, State

KEYFRAME_FRAMES = 64
QUEUES = ("waiting", "running", "swapped")

Delta = dict[str, list[Any]]


class DeltaEncoder:
    """Turns one state into the next. Remembers who holds each block: use one for each way through a run."""

    def __init__(
        self, requests: Iterable[Request], block_size: int, *, grows: bool = False, has_pages: bool = False
    ) -> None:
        """`grows`: a sequence uses its whole range, whatever it asked for. `has_pages`: what a table's last
        entry holds in vain is there because pages round up."""
        self.numbers: dict[str, int] = {}
        self.members: dict[str, Member] = {}
        self._block_size = block_size
        self._grows = grows
        self._has_pages = has_pages
        self._holders: dict[int, dict[str, int]] = defaultdict(
            dict
        )  # block -> sequence -> place in its table
        for request in requests:
            number = self.numbers[request.id] = len(self.numbers)
            several = [f"{request.id}/{index}" for index in range(request.width)]
            names = several if request.width > 1 else [request.id]
            for name in names:
                self.members[name] = Member(len(self.members), number, names[0], request.final_tokens)

    def keyframe(self, state: State) -> Delta:
        """All of `state`, as the delta from nothing."""
        other = DeltaEncoder((), self._block_size, grows=self._grows, has_pages=self._has_pages)
        other.numbers, other.members = self.numbers, self.members
        touched = dict.fromkeys((*state.running, *state.waiting, *state.swapped), False)
        return other.delta(State(), state, touched, state.cached)

    def delta(
        self, before: State, after: State, touched: Mapping[str, bool], flipped: Iterable[int]
    ) -> Delta:
        """What changed. `before` need know nothing but the queues and whom `touched` names.

        `touched` names every request that an event between the two was about, and says whether one plain
        decode is all that happened to it; `flipped` are the blocks that are cached in one of the two alone.
        """
        delta: Delta = defaultdict(list)
        names = [
            name for request, is_decode in touched.items() if not is_decode for name in after.names(request)
        ]
        dirty = set(flipped)
        kept = self._change_tables(delta, before, after, names, dirty)
        for request, is_decode in touched.items():
            if is_decode and self._fills_own(after, request, after.stored[request] - 1, dirty):
                delta["decode"].append(self.members[request].number)
                continue
            for name in after.names(request):
                table = after.block_tables.get(name)
                num_kept = kept[name] if name in kept else _length(table)
                self._add_progress(delta, before, after, name, num_kept, dirty)
        self._add_dirty(delta, after, dirty)
        for queue in QUEUES:
            old, new = getattr(before, queue), getattr(after, queue)
            if old != new:
                delta[queue] = self._queue_edit(old, new)
        return dict(delta)

    def _change_tables(
        self, delta: Delta, before: State, after: State, names: list[str], dirty: set[int]
    ) -> dict[str, int]:
        """Tables that went, then tables that came; how many entries of its table each sequence keeps."""
        kept: dict[str, int] = {}
        gone: list[str] = []
        for name in names:
            old, new = before.block_tables.get(name), after.block_tables.get(name)
            kept[name] = _num_kept(old, new)
            if old is not None and kept[name] == 0:
                gone.append(name)
                for block in _blocks(old):
                    self._holders[block].pop(name, None)
        for name in gone:
            blocks = _blocks(before.block_tables[name])
            is_own = not any(self._holders[block] for block in blocks)
            delta["drop" if is_own else "unmap"].append(self.members[name].number)
            dirty.update(() if is_own else blocks)
        for name in names:
            blocks = _blocks(after.block_tables.get(name))
            for place in range(kept[name], len(blocks)):
                self._holders[blocks[place]][name] = place
        for name in names:
            new = after.block_tables.get(name)
            if new is not None and kept[name] < _length(new):
                self._add_cells(delta, after, name, new, kept[name], dirty)
        return kept

    def _add_cells(
        self, delta: Delta, after: State, name: str, table: BlockTable, first: int, dirty: set[int]
    ) -> None:
        """New cells at the end of a table, neighbours of equal content as one group."""
        member = self.members[name]
        blocks = _blocks(table)
        if any(len(self._holders[block]) > 1 for block in blocks[first:]):
            delta["map"].extend((member.number, len(blocks), *blocks))
            dirty.update(blocks[first:])
            return
        groups: list[tuple[Content, list[int]]] = []
        for cell, content in self._own_contents(member, table, _written(after, member, name), first):
            if not groups or groups[-1][0] != content:
                groups.append((content, []))
            groups[-1][1].append(cell)
        for content, cells in groups:
            delta["hold"].extend((member.number, *content, len(cells), *cells))
        dirty.difference_update(blocks[first:])

    def _add_progress(
        self, delta: Delta, before: State, after: State, name: str, num_kept: int, dirty: set[int]
    ) -> None:
        member, table = self.members[name], after.block_tables.get(name)
        was, now = _progress(before, name), _progress(after, name)
        old, new = _written(before, member, name), _written(after, member, name)
        if now is None and was is not None:
            delta["leave"].append(member.number)
        if now is not None and now != was:
            is_one_more = was is not None and now == (was[0] + 1, was[1] + 1) and new == old + 1 == now[0]
            has_same_table = table is not None and num_kept == _length(table)
            if is_one_more and has_same_table and self._fills_own(after, name, old, dirty):
                delta["decode"].append(member.number)
                return
            delta["at"].extend((member.number, *now))
        if table is None or old == new or num_kept == 0:
            return
        if isinstance(table, SlotRange):
            ((cell, content),) = self._own_contents(member, table, new)
            delta["put"].extend((cell, member.request, 1, *content, 0))
            return
        size = self._block_size
        dirty.update(table[min(old, new) // size : min(-(-max(old, new) // size), num_kept)])

    def _fills_own(self, state: State, name: str, stored: int, dirty: set[int]) -> bool:
        """Whether the token after `stored` goes where one was expected, in a cell that nobody else holds."""
        table = state.block_tables[name]
        if stored >= self.members[name].final_tokens:
            return False
        if isinstance(table, SlotRange):
            return stored < (table.length if self._grows else table.reserved)
        cell = table[stored // self._block_size]
        return len(self._holders[cell]) <= 1 and cell not in dirty

    def _own_contents(
        self, member: Member, table: BlockTable, stored: int, first: int = 0
    ) -> list[tuple[int, Content]]:
        """Cell and content of the table's entries from `first` on, as if nobody else held them."""
        final = max(stored, member.final_tokens)
        if isinstance(table, SlotRange):
            filled = min(table.length if self._grows else table.reserved, final)
            internal = max(0, table.reserved - filled)
            rounding = table.length - max(table.reserved, filled)
            return [(table.start, Content(stored, filled - stored, internal, rounding))][first:]
        size = self._block_size
        return [
            (cell, self._block_content(stored - index * size, final - index * size))
            for index, cell in enumerate(table[first:], start=first)
        ]

    def _add_dirty(self, delta: Delta, after: State, dirty: set[int]) -> None:
        """What blocks hold that several may have changed: the union of what their holders have written."""
        size = self._block_size
        for block in sorted(dirty):
            holders = self._holders[block]
            if holders:
                stored = final = 0
                for name, place in holders.items():
                    member = self.members[name]
                    written = _written(after, member, name)
                    stored = max(stored, written - place * size)
                    final = max(final, max(written, member.final_tokens) - place * size)
                owner = self.members[next(iter(holders))].request
                delta["put"].extend((block, owner, len(holders), *self._block_content(stored, final), 0))
            elif block in after.cached:
                delta["put"].extend((block, NOBODY, 0, 0, 0, 0, 0, size))
            else:
                delta["free"].append(block)

    def _block_content(self, stored: int, final: int) -> Content:
        """A block at whose first slot `stored` tokens are still to be counted, and `final` in the end."""
        live = min(max(stored, 0), self._block_size)
        reserved = max(min(final, self._block_size) - live, 0)
        in_vain = self._block_size - live - reserved
        return Content(live, reserved, 0, in_vain) if self._has_pages else Content(live, reserved, in_vain, 0)

    def _queue_edit(self, old: list[str], new: list[str]) -> list[list[int]]:
        staying = set(old) & set(new)
        if [one for one in old if one in staying] != [one for one in new if one in staying]:
            staying = set[str]()
        goes = [self.numbers[one] for one in old if one not in staying]
        comes = [(place, self.numbers[one]) for place, one in enumerate(new) if one not in staying]
        return [goes, [value for pair in comes for value in pair]]


def _blocks(table: BlockTable | None) -> list[int]:
    """Blocks of a table; a range has none, since it is never shared."""
    return table if isinstance(table, list) else []


def _length(table: BlockTable | None) -> int:
    return 1 if isinstance(table, SlotRange) else len(table or ())


def _num_kept(old: BlockTable | None, new: BlockTable | None) -> int:
    """How many entries of `new` are those of `old`, provided that none of `old` is gone."""
    if old is None or new is None:
        return 0
    if isinstance(old, SlotRange) or isinstance(new, SlotRange):
        return int(old == new)
    return len(old) if old is new or new[: len(old)] == old else 0


def _written(state: State, member: Member, name: str) -> int:
    """Tokens whose keys and values are there.

    While the first sequence of a request computes the prompt again, the others count it as stored already.
    """
    return min(state.stored.get(name, 0), state.stored.get(member.first, 0))


def _progress(state: State, name: str) -> tuple[int, int] | None:
    stored = state.stored.get(name)
    return None if stored is None else (stored, state.emitted.get(name, 0))
