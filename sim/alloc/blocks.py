"""A pool of interchangeable blocks with reference counts.

in use      num_refs > 0: stands in that many block tables
fresh       free, holds nothing that could be found again; last in, first out
evictable   free, but its content is cached: taken last, the least recently freed first
"""

from collections import OrderedDict
from collections.abc import Iterable

from sim.cache import PrefixCache


class BlockPool:
    """Hands out blocks without reusable content first (as vLLM's pool does)."""

    def __init__(self, num_blocks: int, cache: PrefixCache | None = None) -> None:
        self.num_blocks = num_blocks
        self.num_refs = [0] * num_blocks
        self.num_shared = 0  # references beyond the first of each block
        self._fresh = list(range(num_blocks - 1, -1, -1))
        self._evictable: OrderedDict[int, None] = OrderedDict()
        self._cache = cache

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

    def take(self, count: int) -> tuple[list[int], list[int]]:
        """`count` free blocks for one owner, and those among them whose cached content is lost."""
        assert count <= self.num_free, f"take {count} of {self.num_free} free blocks"
        num_fresh = min(count, len(self._fresh))
        taken = self._fresh[len(self._fresh) - num_fresh :][::-1]
        del self._fresh[len(self._fresh) - num_fresh :]
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
            del self._evictable[block]
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
                self._evictable[block] = None
            else:
                self._fresh.append(block)
        return freed

    def check(self, tables: Iterable[list[int]]) -> None:
        """Reference counts equal owners, and every block is in use, fresh or evictable, in one way only."""
        owners = [0] * self.num_blocks
        for table in tables:
            for block in table:
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
        del self._evictable[block]
        self._cache.forget(block)
        return block
