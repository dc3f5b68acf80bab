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

    def pick(self, evictable: Iterable[int]) -> int:
        """Which of the blocks that nobody uses to give up; they come in the order of the eviction policy."""
        ...

    def forget(self, block: int) -> None:
        """`block` gets other content."""
        ...


class HashCache:
    """vLLM's table from chain to blocks. A chain may be held by several blocks: the first one found is used."""

    def __init__(self) -> None:
        self._blocks: dict[Chain, dict[int, None]] = {}
        self._chains: dict[int, Chain] = {}

    def find(self, chain: Chain) -> int | None:
        blocks = self._blocks.get(chain)
        return next(iter(blocks)) if blocks else None

    def add(self, block: int, chain: Chain) -> None:
        chain.retain()
        self._chains[block] = chain
        self._blocks.setdefault(chain, {})[block] = None

    def holds(self, block: int) -> bool:
        return block in self._chains

    def pick(self, evictable: Iterable[int]) -> int:
        return next(iter(evictable))

    def forget(self, block: int) -> None:
        chain = self._chains.pop(block)
        blocks = self._blocks[chain]
        del blocks[block]
        if not blocks:
            del self._blocks[chain]
        chain.release()


class RadixCache:
    """One block a node; only a node without cached children may go."""

    def __init__(self) -> None:
        self._block: dict[Chain, int] = {}
        self._chains: dict[int, Chain] = {}

    def find(self, chain: Chain) -> int | None:
        return self._block.get(chain)

    def add(self, block: int, chain: Chain) -> None:
        if chain in self._block:
            return
        chain.retain()
        self._chains[block] = chain
        self._block[chain] = block

    def holds(self, block: int) -> bool:
        return block in self._chains

    def pick(self, evictable: Iterable[int]) -> int:
        return next(block for block in evictable if not self._has_cached_child(self._chains[block]))

    def forget(self, block: int) -> None:
        chain = self._chains.pop(block)
        del self._block[chain]
        chain.release()

    def _has_cached_child(self, chain: Chain) -> bool:
        return any(child in self._block for child in chain.children.values())
