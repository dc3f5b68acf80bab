"""Two ways to keep finished blocks for later: by chained hash (vLLM) and as a radix tree (SGLang).

Both answer the same question, which blocks hold the start of this chain. They differ in

                    hash                            radix
    duplicates      kept: both blocks are cached    not kept: the tree has one block for a node
    eviction        any block that nobody uses      only leaves: a node never outlives its parent
"""

from collections.abc import Iterable
from typing import Protocol

from sim.cache.chain import Chain


class PrefixCache(Protocol):
    """Knows which block holds which chain. Blocks in use and evictable ones alike."""

    def find(self, chain: Chain) -> int | None:
        """A block with the content of `chain`, or None."""
        ...

    def add(self, block: int, chain: Chain) -> None:
        """`block` holds the content of `chain` from now on (or the cache declines it)."""
        ...

    def holds(self, block: int) -> bool:
        """Whether the content of `block` can still be found."""
        ...

    def since(self, block: int) -> int:
        """When the content of a held block was first cached: a number that grows with every `add`."""
        ...

    def pick(self, evictable: Iterable[int]) -> int:
        """Which of the blocks that nobody uses to give up; they come in the order of the eviction rule."""
        ...

    def forget(self, block: int) -> None:
        """`block` gets other content."""
        ...


class _Shelf:
    """Which block holds which chain, and since when: what both ways have in common."""

    def __init__(self) -> None:
        self._chains: dict[int, Chain] = {}
        self._since: dict[int, int] = {}
        self._num_added = 0

    def holds(self, block: int) -> bool:
        return block in self._chains

    def since(self, block: int) -> int:
        return self._since[block]

    def _put(self, block: int, chain: Chain) -> None:
        chain.retain()
        self._chains[block] = chain
        self._since[block] = self._num_added
        self._num_added += 1

    def _take(self, block: int) -> Chain:
        """The caller must `release` the chain that it gets."""
        del self._since[block]
        return self._chains.pop(block)


class HashCache(_Shelf):
    """vLLM's table from chain to blocks. Of several blocks that hold a chain the first one is used."""

    def __init__(self) -> None:
        super().__init__()
        self._blocks: dict[Chain, dict[int, None]] = {}

    def find(self, chain: Chain) -> int | None:
        blocks = self._blocks.get(chain)
        return next(iter(blocks)) if blocks else None

    def add(self, block: int, chain: Chain) -> None:
        self._put(block, chain)
        self._blocks.setdefault(chain, {})[block] = None

    def pick(self, evictable: Iterable[int]) -> int:
        return next(iter(evictable))

    def forget(self, block: int) -> None:
        chain = self._take(block)
        blocks = self._blocks[chain]
        del blocks[block]
        if not blocks:
            del self._blocks[chain]
        chain.release()


class RadixCache(_Shelf):
    """One block a node; only a node without cached children may go.

    A sequence may hold a block of its own in place of the tree's (it was computed twice). Then a node can be
    in use while its parent is not. If such parents are all that can go, the nodes below leave the tree too.
    """

    def __init__(self) -> None:
        super().__init__()
        self._block: dict[Chain, int] = {}

    def find(self, chain: Chain) -> int | None:
        return self._block.get(chain)

    def add(self, block: int, chain: Chain) -> None:
        if chain not in self._block and self._has_place(chain):
            self._put(block, chain)
            self._block[chain] = block

    def pick(self, evictable: Iterable[int]) -> int:
        leaves = (block for block in evictable if not self._cached_children(self._chains[block]))
        block = next(leaves, None)
        if block is not None:
            return block
        offered = set(evictable)
        return next(block for block in evictable if offered.isdisjoint(self._below(block)))

    def forget(self, block: int) -> None:
        for one in [*self._below(block), block]:
            chain = self._take(one)
            del self._block[chain]
            chain.release()

    def _has_place(self, chain: Chain) -> bool:
        """Whether the node's parent is the root or in the tree."""
        assert chain.parent is not None
        return chain.parent.parent is None or chain.parent in self._block

    def _cached_children(self, chain: Chain) -> list[int]:
        return [self._block[child] for child in chain.children.values() if child in self._block]

    def _below(self, block: int) -> list[int]:
        """Blocks of the nodes under this one, the deepest first."""
        below: list[int] = []
        level = [block]
        while level:
            level = [child for one in level for child in self._cached_children(self._chains[one])]
            below = level + below
        return below
