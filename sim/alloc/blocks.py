"""A pool of interchangeable blocks with reference counts.

in use      num_refs > 0: stands in that many block tables
    fresh       free, holds nothing that could be found again; `FreshBlocks` says which goes first
    evictable   free, but its content is cached: taken last, in the order of the eviction rule
"""

from collections.abc import Iterable

from sim.alloc.fresh import FreshBlocks, FreshStack
from sim.cache import EVICTIONS, PrefixCache
from sim.tables import real


class BlockPool:
    """Hands out blocks without reusable content first (as vLLM's pool does)."""

    def __init__(
        self,
        num_blocks: int,
        cache: PrefixCache | None = None,
        eviction: str = "lru",
        fresh: FreshBlocks | None = None,
    ) -> None:
        self.num_blocks = num_blocks
        self.num_refs = [0] * num_blocks
        self.num_shared = 0  # references beyond the first of each block
        self._fresh: FreshBlocks = FreshStack(num_blocks) if fresh is None else fresh
        self._evictable = EVICTIONS[eviction]()
        self._cache = cache

    @property
    def num_in_use(self) -> int:
        """Different blocks that stand in a table."""
        return self.num_blocks - self.num_free

    @property
    def why_evicted(self) -> str:
        """What the eviction rule says of the blocks that it picks."""
        return self._evictable.because

    @property
    def num_free(self) -> int:
        """Blocks that can be handed out."""
        return len(self._fresh) + len(self._evictable)

    @property
    def num_evictable(self) -> int:
        """Free blocks whose content could still be found."""
        return len(self._evictable)

    def is_free(self, block: int) -> bool:
        """Whether no table holds `block`."""
        return not self.num_refs[block]

    def take(self, count: int, place: int = 0, after: int | None = None) -> tuple[list[int], list[int]]:
        """`count` free blocks for one owner, and those among them whose cached content is lost.

        They go to `place` and what follows it in the owner's table, behind the block `after`.
        """
        assert count <= self.num_free, f"take {count} of {self.num_free} free blocks"
        num_fresh = min(count, len(self._fresh))
        taken = self._fresh.take(num_fresh, place, after)
        evicted = [self._evict() for _ in range(count - num_fresh)]
        taken += evicted
        for block in taken:
            self.num_refs[block] = 1
        return taken, evicted

    def share(self, block: int) -> None:
        """One more owner; a free block comes back into use with its content."""
        if self.num_refs[block]:
            self.num_shared += 1
        else:
            self._evictable.remove(block)
        self.num_refs[block] += 1

    def drop(self, blocks: Iterable[int]) -> list[int]:
        """One owner less for each block, in this order; returns those that are free now."""
        freed: list[int] = []
        for block in blocks:
            self.num_refs[block] -= 1
            assert self.num_refs[block] >= 0, f"block {block} freed twice"
            if self.num_refs[block]:
                self.num_shared -= 1
                continue
            freed.append(block)
            if self._cache and self._cache.holds(block):
                self._evictable.add(block, self._cache.since(block))
            else:
                self._fresh.put(block)
        return freed

    def check(self, tables: Iterable[list[int]]) -> None:
        """Reference counts equal owners, and every block is in use, fresh or evictable, in one way only."""
        owners = [0] * self.num_blocks
        for table in tables:
            for block in real(table):
                owners[block] += 1
        wrong = [block for block in range(self.num_blocks) if owners[block] != self.num_refs[block]]
        assert not wrong, f"block {wrong[0]} has {owners[wrong[0]]} owners, counted {self.num_refs[wrong[0]]}"
        free = sorted([*self._fresh, *self._evictable])
        unused = [block for block in range(self.num_blocks) if not owners[block]]
        assert free == unused, f"{len(free)} blocks on the free lists, {len(unused)} without an owner"
        shared = sum(count - 1 for count in owners if count)
        assert shared == self.num_shared, f"{shared} shared references, counted {self.num_shared}"

    def _evict(self) -> int:
        assert self._cache
        block = self._cache.pick(self._evictable)
        self._evictable.remove(block)
        self._cache.forget(block)
        return block
