"""What cells hold: the ledger's rules of classification, cell by cell, for whoever draws them."""

from collections import defaultdict

from app.cells import NOBODY, Content, Member
from app.dropped import Holding, content_of, runs_of, slot_classes
from sim.horizon import Horizon
from sim.replay import BlockTable, SlotRange, State


class Contents:
    """Who holds each block, and what is in it. `members` are all sequences of the run by name.

    `grows`: a sequence uses its whole range, whatever it asked for. `has_pages`: what a table's last entry
    holds in vain is there because pages round up.
    """

    def __init__(
        self, members: dict[str, Member], block_size: int, horizon: Horizon, *, grows: bool, has_pages: bool
    ) -> None:
        self.members = members
        self.block_size = block_size
        self.horizon = horizon
        self.drops = not horizon.is_total
        self.inputs: dict[str, int] = {}  # of requests that were admitted: tokens to prefill, and hits
        self.holders: dict[int, dict[str, int]] = defaultdict(dict)  # block -> sequence -> place in its table
        self._grows = grows
        self._has_pages = has_pages

    def with_nobody(self) -> "Contents":
        """The same run, of which nobody holds anything yet."""
        other = Contents(
            self.members, self.block_size, self.horizon, grows=self._grows, has_pages=self._has_pages
        )
        other.inputs = self.inputs
        return other

    def fills_own(self, state: State, name: str, stored: int, dirty: set[int]) -> bool:
        """Whether the token after `stored` makes a reserved slot live, in a cell of which that says all.

        Nobody shares that cell, and it is not among the `dirty` ones that are told anew.
        """
        if self.drops or stored >= self.members[name].final_tokens:
            return False
        table = state.block_tables[name]
        if isinstance(table, SlotRange):
            return stored < (table.length if self._grows else table.reserved)
        cell = table[stored // self.block_size]
        return cell not in dirty and len(self.holders[cell]) <= 1

    def are_shared(self, blocks: list[int]) -> bool:
        """Whether several hold any of them."""
        return any(len(self.holders[block]) > 1 for block in blocks)

    def own(
        self, member: Member, table: BlockTable, stored: int, first: int = 0
    ) -> list[tuple[Content, list[int]]]:
        """Content of the table's entries from `first` on, neighbours of equal content as one.

        As if nobody else held them.
        """
        final = max(stored, member.final_tokens)
        if isinstance(table, SlotRange):
            filled = min(table.length if self._grows else table.reserved, final)
            internal = max(0, table.reserved - filled)
            rounding = table.length - max(table.reserved, filled)
            return [(Content(stored, filled - stored, internal, rounding), [table.start])][first:]
        size = self.block_size
        num_full = max(first, min(stored // size, len(table)))
        groups = [(Content(size, 0, 0, 0), table[first:num_full])] if num_full > first else []
        for index in range(num_full, len(table)):
            content = self._content(stored - index * size, final - index * size)
            if not groups or groups[-1][0] != content:
                groups.append((content, []))
            groups[-1][1].append(table[index])
        return groups

    def of_block(self, state: State, block: int) -> tuple[list[int], list[int]] | None:
        """What a `put` says of a block, and its runs if their order is unusual; None if the block is free.

        Of a shared block it is the union of what its holders have written.
        """
        holders = self.holders[block]
        if not holders:
            return ([NOBODY, 0, 0, 0, 0, 0, self.block_size], []) if block in state.cached else None
        head = [self.members[next(iter(holders))].request, len(holders)]
        if self.drops:
            holdings = [self._holding(state, name, place) for name, place in holders.items()]
            classes = slot_classes(self.horizon, holdings, self.block_size)
            return [*head, *content_of(classes), 0], runs_of(classes)
        stored = final = 0
        for name, place in holders.items():
            written, start = written_of(state, self.members[name], name), place * self.block_size
            stored = max(stored, written - start)
            final = max(final, max(written, self.members[name].final_tokens) - start)
        return [*head, *self._content(stored, final), 0], []

    def places_dropped(self, before: State, after: State, name: str) -> set[int]:
        """Logical blocks of which tokens were dropped between the two."""
        first, last = self._num_dropped(before, name), self._num_dropped(after, name)
        gone = self.horizon.drop_order(self.members[name].asked, first, last)
        return {position // self.block_size for position in gone}

    def _holding(self, state: State, name: str, place: int) -> Holding:
        member = self.members[name]
        written, dropped = written_of(state, member, name), self._num_dropped(state, name)
        return Holding(member.asked, place * self.block_size, written, dropped)

    def _num_dropped(self, state: State, name: str) -> int:
        stored, asked = state.stored.get(name, 0), self.members[name].asked
        return self.horizon.num_dropped(stored, is_prefilling=stored < self.inputs.get(asked.id, 0))

    def _content(self, stored: int, final: int) -> Content:
        """A block at whose first slot `stored` tokens are still to be counted, and `final` in the end."""
        live = min(max(stored, 0), self.block_size)
        reserved = max(min(final, self.block_size) - live, 0)
        in_vain = self.block_size - live - reserved
        return Content(live, reserved, 0, in_vain) if self._has_pages else Content(live, reserved, in_vain, 0)


def written_of(state: State, member: Member, name: str) -> int:
    """Tokens whose keys and values are there.

    While the first sequence of a request computes the prompt again, the others count it as stored already.
    """
    return min(state.stored.get(name, 0), state.stored.get(member.first, 0))
