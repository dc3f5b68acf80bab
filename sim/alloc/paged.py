"""Paged allocation: blocks on demand, one block table per sequence (vLLM; paper sections 4.2 to 4.5).

    [0, hit)            blocks found in the prefix cache: shared, full, never written
    [hit, stored)       written
    [stored, held)      empty, in the last block, or kept for drafts that were rolled back

Sequences of one request share blocks by reference count; whoever writes into a shared block copies it first.
Blocks whose every token is dropped (`sim.horizon`) are given back and leave a hole in the table.
"""

from collections.abc import Iterable

from sim.alloc.announce import Announcer
from sim.alloc.block_tables import BlockTables
from sim.alloc.blocks import BlockPool
from sim.alloc.needs import BlockNeeds
from sim.alloc.protocol import GRANTED, Granted, Short, Usage
from sim.alloc.runs import FreshRuns
from sim.alloc.swap import SwapSpace, mirror, written_tables
from sim.alloc.tables import TableShape
from sim.alloc.usage import paged_usage
from sim.cache import PrefixCache, PrefixIndex
from sim.events import Kind, Sink
from sim.horizon import Horizon, KeepAll, SlidingWindow
from sim.request import Request, Sequence, SequenceGroup
from sim.tables import HOLE, real, unique


class PagedAllocator(BlockTables):
    """Holds `ceil(tokens / block_size)` blocks for each sequence, wherever they are.

    With `run_blocks` above 1 this is `mixed`: so many blocks in order make up a large one (`sim.alloc.runs`).
    """

    unit = "blocks"

    def __init__(
        self,
        num_blocks: int,
        block_size: int,
        log: Sink,
        *,
        num_host_blocks: int = 0,
        watermark: float = 0.0,
        cache: PrefixCache | None = None,
        eviction: str = "lru",
        horizon: Horizon | None = None,
        max_chunk: int | None = None,
        run_blocks: int = 1,
        table_shape: TableShape | None = None,
    ) -> None:
        fresh = FreshRuns(num_blocks, run_blocks) if run_blocks > 1 else None
        pool = BlockPool(num_blocks, cache, eviction, fresh)
        super().__init__(pool, block_size, Announcer(log, cache), table_shape)
        self.num_slots = num_blocks * block_size
        self.num_watermark_blocks = int(watermark * num_blocks)
        self.host = SwapSpace(num_host_blocks)
        self.horizon = horizon or KeepAll()
        self._needs = BlockNeeds(block_size, self.horizon, max_chunk)
        window = self.horizon if isinstance(self.horizon, SlidingWindow) else None
        self._prefixes = PrefixIndex(cache, block_size, window)

    @property
    def num_free_slots(self) -> int:
        return self.device.num_free * self.block_size

    @property
    def num_cached_slots(self) -> int:
        return self.device.num_evictable * self.block_size

    def never_fits(self, request: Request) -> Short | None:
        needed = self._needs.at_worst(request)
        return Short(needed, self.device.num_blocks) if needed > self.device.num_blocks else None

    # Admission

    def uncached_tokens(self, group: SequenceGroup) -> int:
        num_shared = (len(group.active) - 1) * self._needs.prompt_blocks(group.request)
        return group.num_pending - (len(self._hits(group)) + num_shared) * self.block_size

    def admit(self, group: SequenceGroup, num_tokens: int, *, keep_watermark: bool) -> Granted | Short:
        first, *others = group.active
        hits = self._hits(group)
        pinned = sum(self.device.is_free(block) for block in real(hits))  # no longer there for anyone to take
        needed = self._needs.to_admit(group, hits)
        available = self.device.num_free - pinned - (self.num_watermark_blocks if keep_watermark else 0)
        if needed > available:
            return Short(needed, max(available, 0))
        self._use_hits(first, hits)
        if others:  # preempted after its fork: it comes back whole
            num_tokens = first.num_pending
        self._furnish(first, self._num_missing(first, num_tokens), num_tokens)
        for sequence in others:
            shared = self.tables[first][: self._needs.prompt_blocks(group.request)]
            sequence.stored = len(shared) * self.block_size
            self._continue_from(first, sequence, self._needs.readable(sequence, shared))
            num_tokens = sequence.num_pending
            self._furnish(sequence, self._num_missing(sequence, num_tokens), num_tokens)
        return GRANTED

    def _hits(self, group: SequenceGroup) -> list[int]:
        """Cached blocks at the start of what a waiting group has pending.

        Sequences that come back together hit the prompt only: their last tokens may have been another's,
        and each of them reads what follows the shared prompt.
        """
        first, *others = group.active
        return self._prefixes.find(first, self._needs.prompt_blocks(group.request) if others else None)

    def _use_hits(self, sequence: Sequence, hits: list[int]) -> None:
        for block in real(hits):
            self.device.share(block)
        self.tables[sequence] = hits
        sequence.stored = len(hits) * self.block_size
        if hits:
            self._say.hit(sequence, hits)

    def _num_missing(self, sequence: Sequence, num_tokens: int) -> int:
        """Blocks that `num_tokens` more than the stored ones take, beyond those in the table."""
        needed = self._needs.blocks_for(sequence.stored + num_tokens)
        return max(0, needed - len(self.tables[sequence]))

    # Growth, forks and copies

    def grow(self, sequence: Sequence, num_tokens: int) -> Granted | Short:
        table = self.tables[sequence]
        if not num_tokens:
            return GRANTED
        place, offset = divmod(sequence.stored, self.block_size)
        is_shared = offset > 0 and self.device.num_refs[table[place]] > 1
        must_copy = is_shared and self._needs.may_diverge(sequence)
        needed = self._num_missing(sequence, num_tokens) + must_copy
        if needed > self.device.num_free:
            return Short(needed, self.device.num_free)
        if must_copy:
            self._copy_on_write(sequence, place, offset)
        if blocks := self._extend(sequence, self._num_missing(sequence, num_tokens)):
            num_held = len(table) - len(blocks)
            left = self.device.num_free
            self._say.growth(sequence, num_held, num_tokens, blocks, self.block_size, left)
        num_verified = min(sequence.stored + num_tokens, sequence.num_known)  # the rest are drafts
        self._prefixes.remember(sequence, table, num_verified)
        return GRANTED

    def grow_full(self, sequences: list[Sequence]) -> int:
        """`grow(sequence, 1)` for each in order, while there are blocks; how many got theirs.

        For sequences of a pool without prefix cache whose own blocks are all full.
        """
        left = self.device.num_free
        blocks, _ = self.device.take(min(len(sequences), left))
        for sequence, block in zip(sequences, blocks, strict=False):
            table, left = self.tables[sequence], left - 1
            self._say.growth(sequence, len(table), 1, [block], self.block_size, left)
            table.append(block)
        return len(blocks)

    def settle(self, sequence: Sequence, before: int, *, was_prefilling: bool) -> None:
        table = self.tables[sequence]
        self._prefixes.remember(sequence, table, sequence.stored)
        if self.horizon.is_total:
            return
        dropped = self.horizon.num_dropped(before, is_prefilling=was_prefilling)
        now = self.horizon.num_dropped(sequence.stored, is_prefilling=sequence.is_prefilling)
        if places := self._needs.dropped_places(sequence.request, table, dropped, now):
            blocks = [table[place] for place in places]
            for place in places:
                table[place] = HOLE
            freed = self.device.drop(blocks)
            shared = [block for block in blocks if not self.device.is_free(block)]
            self._say.punch(sequence, places, freed, shared, self.horizon.because())

    def fork(self, group: SequenceGroup) -> None:
        first, *others = group.sequences
        for sequence in others:
            self._continue_from(first, sequence, self.tables[first][:])
        self._prefixes.adopt(dict.fromkeys(others, self._prefixes.chains_of(first)))

    def reorder(self, group: SequenceGroup, parents: list[int]) -> None:
        if parents == list(range(len(parents))):
            return
        old = [self.tables[sequence] for sequence in group.sequences]
        chains = [self._prefixes.chains_of(sequence) for sequence in group.sequences]
        for sequence, parent in zip(group.sequences, parents, strict=True):
            self._continue_from(group.sequences[parent], sequence, old[parent][:])
        self._prefixes.adopt(dict(zip(group.sequences, (chains[parent] for parent in parents), strict=True)))
        freed = self.device.drop(block for table in old for block in reversed(real(table)))
        if freed:
            self._say.abandon(group, freed)

    # Giving memory back

    def release(self, group: SequenceGroup, why: str) -> None:
        for sequence in group.active:
            self._prefixes.unlearn(self.tables[sequence], sequence.stored)
            blocks = real(self.tables.pop(sequence))[::-1]
            freed = self.device.drop(blocks)
            self._prefixes.leave(sequence)
            shared = [block for block in blocks if not self.device.is_free(block)]
            self._say.release(sequence, why, freed, shared)

    def host_has_room(self, group: SequenceGroup) -> bool:
        return len(unique(written_tables(self.tables, group, self.block_size))) <= self.host.pool.num_free

    def swap_out(self, group: SequenceGroup, why: str) -> None:
        written = written_tables(self.tables, group, self.block_size)
        host_blocks = self.host.store(group, written)
        self.traffic.swapped_out_blocks += len(host_blocks)
        self._say.swap(Kind.SWAP_OUT, group, why, unique(written), host_blocks)
        self.release(group, f"swapped to {len(host_blocks)} host blocks")

    def swap_in(self, group: SequenceGroup, tokens: list[int], why: str) -> Granted | Short:
        host_tables = self.host.tables_of(group)
        host_blocks = unique(host_tables)
        needed = len(host_blocks) + self._needs.to_go_on(group, host_tables, tokens)
        if needed > self.device.num_free:
            return Short(needed, self.device.num_free)
        blocks = self._take(group.sequences[0], len(host_blocks), 0)
        for sequence, table in zip(group.active, mirror(host_tables, blocks, self.device), strict=True):
            self.tables[sequence] = table
            self._say.alloc(sequence, table, f"{len(real(table))} blocks come back from host memory")
        self.traffic.swapped_in_blocks += len(host_blocks)
        self._say.swap(Kind.SWAP_IN, group, why, blocks, host_blocks)
        self.host.drop(group)
        for sequence, num_tokens in zip(group.active, tokens, strict=True):
            answer = self.grow(sequence, num_tokens)
            assert isinstance(answer, Granted), "the need was counted above"
        return GRANTED

    def usage(self, groups: Iterable[SequenceGroup]) -> Usage:
        return paged_usage(
            self.tables, groups, self.block_size, self.horizon, has_shared=self.device.num_shared > 0
        )

    def is_stranded(self, group: SequenceGroup) -> bool:
        return False  # any free blocks will do: what they cannot hold, they are too few for

    def check(self) -> None:
        self.device.check(self.tables.values())
        self.host.pool.check(self.host.tables.values())
