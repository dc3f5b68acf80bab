"""Paged allocation: blocks on demand, one block table per sequence (vLLM; paper sections 4.2 to 4.5).

    [0, hit)            blocks found in the prefix cache: shared, full, never written
    [hit, stored)       written
    [stored, held)      empty, in the last block

Sequences of one request share blocks by reference count; whoever writes into a shared block copies it first.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from sim.alloc.blocks import BlockPool
from sim.alloc.protocol import GRANTED, Granted, Short, Traffic, Usage
from sim.alloc.swap import SwapSpace, mirror, unique
from sim.alloc.usage import paged_usage
from sim.cache import Chain, PrefixCache, PrefixIndex
from sim.events import Kind, Sink
from sim.request import Request, Sequence, SequenceGroup


class PagedAllocator:
    """Holds `ceil(tokens / block_size)` blocks for each sequence, wherever they are."""

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
    ) -> None:
        self.block_size = block_size
        self.num_slots = num_blocks * block_size
        self.num_watermark_blocks = int(watermark * num_blocks)
        self.device = BlockPool(num_blocks, cache)
        self.host = SwapSpace(num_host_blocks)
        self.tables: dict[Sequence, list[int]] = {}
        self.traffic = Traffic()
        self._cache = cache
        self._prefixes = PrefixIndex(cache, block_size)
        self._log = log

    @property
    def num_free_slots(self) -> int:
        return self.device.num_free * self.block_size

    @property
    def num_cached_slots(self) -> int:
        return self.device.num_evictable * self.block_size

    def blocks_for(self, num_tokens: int) -> int:
        """Blocks that `num_tokens` tokens fill, the last one perhaps in part."""
        return -(-num_tokens // self.block_size)

    def never_fits(self, request: Request) -> Short | None:
        needed = self._blocks_of_all(request, request.worst_case_tokens, request.width)
        return Short(needed, self.device.num_blocks) if needed > self.device.num_blocks else None

    def _blocks_of_all(self, request: Request, num_tokens: int, width: int) -> int:
        """Blocks of `width` sequences of so many tokens that share the full blocks of the prompt."""
        each = self.blocks_for(num_tokens)
        return each + (width - 1) * (each - request.prompt // self.block_size)

    # Admission

    def uncached_tokens(self, group: SequenceGroup) -> int:
        hit = len(self._prefixes.find(group.sequences[0])) * self.block_size
        shared = self._num_shared_blocks(group) * self.block_size
        return group.num_pending - hit - (len(group.active) - 1) * shared

    def admit(self, group: SequenceGroup, num_tokens: int, *, keep_watermark: bool) -> Granted | Short:
        first, *others = group.active
        hits = self._prefixes.find(first)
        pinned = sum(self.device.is_free(block) for block in hits)  # no longer there for anyone to take
        needed = self._blocks_of_all(group.request, first.num_pending, len(group.active)) - len(hits)
        available = self.device.num_free - pinned - (self.num_watermark_blocks if keep_watermark else 0)
        if needed > available:
            return Short(needed, max(available, 0))
        self._use_hits(first, hits)
        if others:  # preempted after its fork: it comes back whole
            num_tokens = first.num_pending
        self._extend(first, num_tokens, f"{num_tokens} tokens")
        for sequence in others:
            num_shared = self._num_shared_blocks(group)
            self._continue_from(first, sequence, self.tables[first][:num_shared], [])
            sequence.stored = num_shared * self.block_size
            self._extend(sequence, sequence.num_pending, f"{sequence.num_pending} tokens")
        return GRANTED

    def _num_shared_blocks(self, group: SequenceGroup) -> int:
        """Full blocks of the prompt: sequences that come back after a preemption share no more than these."""
        return group.request.prompt // self.block_size

    def _use_hits(self, sequence: Sequence, hits: list[int]) -> None:
        for block in hits:
            self.device.share(block)
        self.tables[sequence] = hits
        sequence.stored = len(hits) * self.block_size
        if hits:
            why = f"the first {len(hits)} blocks of its input are in the prefix cache"
            self._emit(Kind.HIT, sequence, why, blocks=hits[:], tokens=sequence.stored)

    # Growth, forks and copies

    def grow(self, sequence: Sequence, num_tokens: int) -> Granted | Short:
        table = self.tables[sequence]
        if not num_tokens:
            return GRANTED
        place, offset = divmod(sequence.stored, self.block_size)
        must_copy = offset > 0 and self.device.num_refs[table[place]] > 1
        needed = max(0, self.blocks_for(sequence.stored + num_tokens) - len(table)) + must_copy
        if needed > self.device.num_free:
            return Short(needed, self.device.num_free)
        if must_copy:
            self._copy_on_write(sequence, place, offset)
        why = f"{sequence.stored} + {num_tokens} tokens do not fit {len(table)} blocks"
        self._extend(sequence, num_tokens, why)
        self._prefixes.remember(sequence, table, sequence.stored + num_tokens)
        return GRANTED

    def fork(self, group: SequenceGroup) -> None:
        first = group.sequences[0]
        for sequence in group.sequences[1:]:
            self._continue_from(first, sequence, self.tables[first][:], self._prefixes.chains_of(first))

    def reorder(self, group: SequenceGroup, parents: list[int]) -> None:
        if parents == list(range(len(parents))):
            return
        old = [self.tables[sequence] for sequence in group.sequences]
        chains = [self._prefixes.chains_of(sequence) for sequence in group.sequences]
        for sequence, parent in zip(group.sequences, parents, strict=True):
            self._continue_from(group.sequences[parent], sequence, old[parent][:], chains[parent])
        freed = self.device.drop(block for table in old for block in reversed(table))
        if freed:
            self._log.emit(Kind.FREE, group.request.id, "no beam goes on from these", **self._freed(freed))

    def _continue_from(
        self, parent: Sequence, child: Sequence, blocks: list[int], chains: list[Chain]
    ) -> None:
        for block in blocks:
            self.device.share(block)
        self.tables[child] = blocks
        self._prefixes.adopt(child, chains)
        why = f"sequence {child.index} goes on from sequence {parent.index}: {len(blocks)} blocks shared"
        self._emit(Kind.FORK, child, why, parent=parent.index, blocks=blocks[:])

    def _copy_on_write(self, sequence: Sequence, place: int, num_tokens: int) -> None:
        table = self.tables[sequence]
        source = table[place]
        num_owners = self.device.num_refs[source]
        destination = self._take(sequence, 1)[0]
        self.device.drop([source])
        table[place] = destination
        self.traffic.copies += 1
        self.traffic.copied_tokens += num_tokens
        self._emit(
            Kind.COPY,
            sequence,
            f"block {source} has {num_owners} owners: its {num_tokens} tokens are copied before one of them writes",
            source=source,
            destination=destination,
            place=place,
            tokens=num_tokens,
        )

    # Giving memory back

    def release(self, group: SequenceGroup, why: str) -> None:
        for sequence in group.active:
            blocks = self.tables.pop(sequence)[::-1]
            freed = self.device.drop(blocks)
            self._prefixes.leave(sequence)
            shared = [block for block in blocks if not self.device.is_free(block)]
            self._emit(
                Kind.FREE, sequence, why, **self._freed(freed), **({"shared": shared} if shared else {})
            )

    def host_has_room(self, group: SequenceGroup) -> bool:
        return len(unique(self._written(group))) <= self.host.pool.num_free

    def swap_out(self, group: SequenceGroup, why: str) -> None:
        written = self._written(group)
        host_blocks = self.host.store(group, written)
        self.traffic.swapped_out_blocks += len(host_blocks)
        self._log.emit(Kind.SWAP_OUT, group.request.id, why, blocks=unique(written), host_blocks=host_blocks)
        self.release(group, f"swapped to {len(host_blocks)} host blocks")

    def swap_in(self, group: SequenceGroup, tokens: list[int], why: str) -> Granted | Short:
        host_tables = self.host.tables_of(group)
        host_blocks = unique(host_tables)
        needed = len(host_blocks) + self._blocks_to_go_on(group, host_tables, tokens)
        if needed > self.device.num_free:
            return Short(needed, self.device.num_free)
        blocks = self._take(group.sequences[0], len(host_blocks))
        for sequence, table in zip(group.active, mirror(host_tables, blocks, self.device), strict=True):
            self.tables[sequence] = table
            self._emit(
                Kind.ALLOC, sequence, f"{len(table)} blocks come back from host memory", blocks=table[:]
            )
        self.traffic.swapped_in_blocks += len(host_blocks)
        self._log.emit(Kind.SWAP_IN, group.request.id, why, blocks=blocks, host_blocks=host_blocks)
        self.host.drop(group)
        for sequence, num_tokens in zip(group.active, tokens, strict=True):
            answer = self.grow(sequence, num_tokens)
            assert isinstance(answer, Granted), "the need was counted above"
        return GRANTED

    def _blocks_to_go_on(self, group: SequenceGroup, tables: list[list[int]], tokens: list[int]) -> int:
        """Blocks that the next tokens take, copies of shared last blocks included."""
        num_new = 0
        writers: Counter[int] = Counter()
        for sequence, table, num_tokens in zip(group.active, tables, tokens, strict=True):
            num_new += max(0, self.blocks_for(sequence.stored + num_tokens) - len(table))
            place, offset = divmod(sequence.stored, self.block_size)
            writers.update([table[place]] if offset and num_tokens else [])
        return num_new + sum(count - 1 for count in writers.values())

    def _written(self, group: SequenceGroup) -> list[list[int]]:
        return [self.tables[sequence][: self.blocks_for(sequence.stored)] for sequence in group.active]

    # Books

    def table_bytes(self) -> int:
        return 4 * sum(len(table) for table in self.tables.values())

    def usage(self, groups: Iterable[SequenceGroup]) -> Usage:
        return paged_usage(self.tables, groups, self.block_size, has_shared=self.device.num_shared > 0)

    def is_stranded(self, group: SequenceGroup) -> bool:
        return False  # any free blocks will do: what they cannot hold, they are too few for

    def check(self) -> None:
        self.device.check(self.tables.values())
        self.host.pool.check(self.host.tables.values())

    def _extend(self, sequence: Sequence, num_tokens: int, why: str) -> None:
        """Room for `num_tokens` more than the stored ones, which must be there."""
        table = self.tables[sequence]
        if count := max(0, self.blocks_for(sequence.stored + num_tokens) - len(table)):
            blocks = self._take(sequence, count)
            table.extend(blocks)
            left = self.device.num_free
            self._emit(
                Kind.ALLOC,
                sequence,
                f"{why}: {count} blocks of {self.block_size}, {left} left free",
                blocks=blocks,
            )

    def _take(self, sequence: Sequence, count: int) -> list[int]:
        blocks, evicted = self.device.take(count)
        if evicted:
            why = f"only blocks with cached content are free; these {len(evicted)} were freed longest ago"
            self._emit(Kind.EVICT, sequence, why, blocks=evicted)
        return blocks

    def _freed(self, blocks: list[int]) -> dict[str, list[int]]:
        """The fields of a `free` event: the blocks, and which of them keep content that can be found."""
        kept = [block for block in blocks if self._cache and self._cache.holds(block)]
        return {"blocks": blocks, "cached": kept} if kept else {"blocks": blocks}

    def _emit(self, kind: Kind, sequence: Sequence, why: str, **changes: Any) -> None:
        """An event of one sequence; its index is given where the request has several."""
        which = {"sequence": sequence.index} if sequence.request.width > 1 else {}
        self._log.emit(kind, sequence.request.id, why, **which, **changes)
