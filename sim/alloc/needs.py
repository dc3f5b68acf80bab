"""How many blocks something takes: arithmetic only, nothing is held here."""

from collections import Counter

from sim.horizon import Horizon, SlidingWindow
from sim.request import Request, Sequence, SequenceGroup
from sim.tables import HOLE, real


class BlockNeeds:
    """Counts blocks for requests under one block size and horizon.

    `max_chunk` is the most tokens that one step stores of a sequence, or None where a whole input is
    prefilled at once.
    """

    def __init__(self, block_size: int, horizon: Horizon, max_chunk: int | None) -> None:
        self.block_size = block_size
        self._horizon = horizon
        self._max_chunk = max_chunk

    def blocks_for(self, num_tokens: int) -> int:
        """Blocks that `num_tokens` tokens fill, the last one perhaps in part."""
        return -(-num_tokens // self.block_size)

    def at_worst(self, request: Request) -> int:
        """Blocks that the request may hold at once, if it emits `max_tokens`.

        A request that was preempted prefills its whole input again. In one step that takes all its blocks,
        window or not; in chunks a window holds less. Several sequences come back whole after a preemption.
        """
        blocks = self._of_all(request, request.worst_case_tokens, request.width)
        return blocks if request.width > 1 else min(blocks, self._most_held(blocks))

    def to_admit(self, group: SequenceGroup, hits: list[int]) -> int:
        """Blocks that a waiting group needs beside its hits to have all its pending tokens stored."""
        width = len(group.active)
        blocks = self._of_all(group.request, group.active[0].num_pending, width)
        needed = blocks - len(hits)
        return needed if width > 1 else min(needed, self._most_held(blocks) - len(real(hits)))

    def to_go_on(self, group: SequenceGroup, tables: list[list[int]], tokens: list[int]) -> int:
        """Blocks that the next tokens of a swapped group take, copies of shared last blocks included."""
        num_new = 0
        writers: Counter[int] = Counter()
        for sequence, table, num_tokens in zip(group.active, tables, tokens, strict=True):
            num_new += max(0, self.blocks_for(sequence.stored + num_tokens) - len(table))
            if num_tokens and self.may_diverge(sequence):
                writers[table[sequence.stored // self.block_size]] += 1
        return num_new + sum(count - 1 for count in writers.values())

    def prompt_blocks(self, request: Request) -> int:
        """Full blocks of the prompt: all that sequences share when they come back from a preemption."""
        return request.prompt // self.block_size

    def readable(self, sequence: Sequence, table: list[int]) -> list[int]:
        """The table without the blocks that no query of a prefill that goes on from `stored` reads."""
        dropped = self._horizon.num_dropped(sequence.stored, is_prefilling=True)
        gone = self.dropped_places(sequence.request, table, 0, dropped)
        return [HOLE if place in gone else block for place, block in enumerate(table)]

    def may_diverge(self, sequence: Sequence) -> bool:
        """Whether the next token goes into a begun block of which other owners may want something else.

        Of a block that the prompt fills all owners want the same: it is shared before it is full only by
        sequences that came back from a preemption together, and the first of them fills it for all.
        """
        place, offset = divmod(sequence.stored, self.block_size)
        return offset > 0 and place >= self.prompt_blocks(sequence.request)

    def dropped_places(self, request: Request, table: list[int], before: int, after: int) -> list[int]:
        """Logical blocks that are still held though all their tokens are dropped, the last one first.

        Tokens `before` to `after - 1` of the drop order are those dropped since the last look. Memory is
        given back by the block: one live token keeps its neighbours' slots.
        """
        size = self.block_size
        touched = {position // size for position in self._horizon.drop_order(request, before, after)}
        return [
            place
            for place in sorted(touched, reverse=True)
            if table[place] != HOLE
            and self._horizon.is_dropped(request, place * size, (place + 1) * size, after)
        ]

    def _of_all(self, request: Request, num_tokens: int, width: int) -> int:
        """Blocks of `width` sequences of so many tokens that share the full blocks of the prompt."""
        each = self.blocks_for(num_tokens)
        return each + (width - 1) * (each - self.prompt_blocks(request))

    def _most_held(self, otherwise: int) -> int:
        """Blocks of one sequence under a window, prefilled in chunks; else `otherwise`."""
        if not isinstance(self._horizon, SlidingWindow) or self._max_chunk is None:
            return otherwise
        return self._horizon.most_blocks(self.block_size, self._max_chunk)
