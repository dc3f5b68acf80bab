"""From a run's log to what a player must be told: display deltas, one a frame, and keyframes.

A frame is a picture: `State` after a step's writes, or the pool while nothing is to do. A cell is what a
block table lists: a block, or a whole contiguous range (named by its first slot). Requests and sequences go
by number: place in the trace, and place among all sequences of the trace. A delta leads from one frame to
the next; all its keys are optional and are applied in this order:

    drop      [sequence, ...]                     its table is gone, and so are the table's cells
    unmap     [sequence, ...]                     its table is gone; others have some of its cells
    free      [cell, ...]                         nobody has it any more
    leave     [sequence, ...]                     forget how far it was
    map       [sequence, n, cell, ...]            this is its table; it shares some cells, or has holes (-1)
    hold      [sequence, live, reserved, internal, rounding, n, cell, ...]
                                                  n cells of its own, of this content, join its table's end
    put       [cell, owner, refs, live, reserved, internal, rounding, cached, ...]
                                                  what a cell holds now; the owner is a request, -1 if cached
    runs      [cell, n, class, slots, ...]        n slots in a row each, in the order in which they lie in a
                                                  cell some of whose tokens are read no more; classes are
                                                  0 live, 1 reserved, 2 internal
    at        [sequence, stored, emitted, ...]    how far it is
    decode    [sequence, ...]                     one more token stored and emitted: the cell of that
                                                  position has one `live` more and one `reserved` less
    waiting, running, swapped   [[request that goes, ...], [index, request that comes, ...]]

A keyframe is the delta from nothing to its frame. All rules of classification are in `app.contents`; a player
only adds up. That the cells sum to the run's own ledger at every step is a test.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from copy import copy
from typing import Any

from app.cells import Member
from app.contents import Contents, written_of
from sim import Request
from sim.horizon import Horizon
from sim.replay import BlockTable, SlotRange, State
from sim.tables import HOLE

KEYFRAME_FRAMES = 64
QUEUES = ("waiting", "running", "swapped")

Delta = dict[str, list[Any]]


class DeltaEncoder:
    """Turns one state into the next. Remembers who holds each block: use one for each way through a run."""

    def __init__(
        self,
        requests: Iterable[Request],
        block_size: int,
        *,
        grows: bool,
        has_pages: bool,
        horizon: Horizon,
    ) -> None:
        """`app.contents` says what the flags mean."""
        self.numbers: dict[str, int] = {}
        members: dict[str, Member] = {}
        for request in requests:
            number = self.numbers[request.id] = len(self.numbers)
            several = [f"{request.id}/{index}" for index in range(request.width)]
            names = several if request.width > 1 else [request.id]
            for name in names:
                members[name] = Member(len(members), number, names[0], request.final_tokens, request)
        self._contents = Contents(members, block_size, horizon, grows=grows, has_pages=has_pages)

    def admit(self, request: str, num_tokens: int) -> None:
        """A request was admitted: so many tokens of it must be stored until it decodes."""
        self._contents.inputs[request] = num_tokens

    def keyframe(self, state: State) -> Delta:
        """All of `state`, as the delta from nothing."""
        other = copy(self)
        other._contents = self._contents.with_nobody()
        touched = dict.fromkeys((*state.running, *state.waiting, *state.swapped), False)
        return other.delta(State(), state, touched, state.cached)

    def delta(
        self, before: State, after: State, touched: Mapping[str, bool], flipped: Iterable[int]
    ) -> Delta:
        """What changed.

        `touched` names every request that an event between the two was about, and says whether one plain
        decode is all that happened to it; `flipped` are the blocks that are cached in one of the two alone.
        `before` need know nothing but the queues, and of the others that `touched` names.
        """
        contents, delta = self._contents, defaultdict[str, list[Any]](list)
        names = [
            name for request, is_decode in touched.items() if not is_decode for name in after.names(request)
        ]
        dirty = set(flipped)
        kept = self._change_tables(delta, before, after, names, dirty)
        for request, is_decode in touched.items():
            if is_decode and contents.fills_own(after, request, after.stored[request] - 1, dirty):
                delta["decode"].append(contents.members[request].number)
                continue
            if is_decode:
                before_decode(before, after, request)
            for name in after.names(request):
                num_kept = kept[name] if name in kept else _length(after.block_tables.get(name))
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
        holders = self._contents.holders
        kept: dict[str, int] = {}
        gone: list[str] = []
        for name in names:
            old, new = before.block_tables.get(name), after.block_tables.get(name)
            kept[name] = _num_kept(old, new)
            if old is not None and kept[name] == 0:
                gone.append(name)
                for block in _blocks(old):
                    holders[block].pop(name, None)
        for name in gone:
            blocks = _blocks(before.block_tables[name])
            is_own = not any(holders[block] for block in blocks)
            delta["drop" if is_own else "unmap"].append(self._contents.members[name].number)
            dirty.update(() if is_own else blocks)
        for name in names:
            blocks = _blocks(after.block_tables.get(name))
            for place in range(kept[name], len(blocks)):
                if blocks[place] != HOLE:
                    holders[blocks[place]][name] = place
        for name in names:
            new = after.block_tables.get(name)
            if new is not None and kept[name] < _length(new):
                self._add_cells(delta, after, name, new, kept[name], dirty)
        return kept

    def _add_cells(
        self, delta: Delta, after: State, name: str, table: BlockTable, first: int, dirty: set[int]
    ) -> None:
        """New cells at the end of a table, neighbours of equal content as one group."""
        contents, blocks = self._contents, _blocks(table)
        member = contents.members[name]
        if contents.drops or contents.are_shared(blocks[first:]):
            delta["map"].extend((member.number, len(blocks), *blocks))
            dirty.update(blocks[first:])
            return
        for content, cells in contents.own(member, table, written_of(after, member, name), first):
            delta["hold"].extend((member.number, *content, len(cells), *cells))
        dirty.difference_update(blocks[first:])

    def _add_progress(
        self, delta: Delta, before: State, after: State, name: str, num_kept: int, dirty: set[int]
    ) -> None:
        contents, member, table = self._contents, self._contents.members[name], after.block_tables.get(name)
        was, now = _progress(before, name), _progress(after, name)
        old, new = written_of(before, member, name), written_of(after, member, name)
        if now is None and was is not None:
            delta["leave"].append(member.number)
        if now is not None and now != was:
            is_one_more = was is not None and now == (was[0] + 1, was[1] + 1) and new == old + 1 == now[0]
            has_same_table = table is not None and num_kept == _length(table)
            if is_one_more and has_same_table and contents.fills_own(after, name, old, dirty):
                delta["decode"].append(member.number)
                return
            delta["at"].extend((member.number, *now))
        if table is None or old == new or num_kept == 0:
            return
        if isinstance(table, SlotRange):
            ((content, cells),) = contents.own(member, table, new)
            delta["put"].extend((*cells, member.request, 1, *content, 0))
            return
        size = contents.block_size
        dirty.update(table[min(old, new) // size : min(-(-max(old, new) // size), num_kept)])
        dropped = contents.places_dropped(before, after, name)
        dirty.update(table[place] for place in dropped if place < num_kept)

    def _add_dirty(self, delta: Delta, after: State, dirty: set[int]) -> None:
        """What blocks hold that several may have changed."""
        for block in sorted(dirty - {HOLE}):
            found = self._contents.of_block(after, block)
            if found is None:
                delta["free"].append(block)
                continue
            content, runs = found
            delta["put"].extend((block, *content))
            if runs:
                delta["runs"].extend((block, len(runs) // 2, *runs))

    def _queue_edit(self, old: list[str], new: list[str]) -> list[list[int]]:
        staying = set(old) & set(new)
        if [one for one in old if one in staying] != [one for one in new if one in staying]:
            staying = set[str]()
        goes = [self.numbers[one] for one in old if one not in staying]
        comes = [(place, self.numbers[one]) for place, one in enumerate(new) if one not in staying]
        return [goes, [value for pair in comes for value in pair]]


def before_decode(before: State, after: State, request: str) -> None:
    """Notes in `before` what held before the one plain decode that led to `after`."""
    before.block_tables[request] = after.block_tables[request]
    before.stored[request] = after.stored[request] - 1
    before.emitted[request] = after.emitted[request] - 1


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


def _progress(state: State, name: str) -> tuple[int, int] | None:
    stored = state.stored.get(name)
    return None if stored is None else (stored, state.emitted.get(name, 0))
