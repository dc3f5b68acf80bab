"""The prefix cache as an allocator uses it: sequences on one side, blocks on the other."""

from collections.abc import Hashable, Iterator

from sim.cache.chain import Chain
from sim.cache.content import block_key
from sim.cache.prefix import PrefixCache
from sim.request import Sequence


class PrefixIndex:
    """Finds the cached start of a sequence, and tells the cache which blocks became full.

    Without a cache it finds and remembers nothing.
    """

    def __init__(self, cache: PrefixCache | None, block_size: int) -> None:
        self._cache = cache
        self._block_size = block_size
        self._root = Chain(None, None)
        self._chains: dict[Sequence, list[Chain]] = {}  # of the full blocks of sequences that hold memory

    def find(self, sequence: Sequence) -> list[int]:
        """Cached blocks that hold the start of what the sequence has pending; one token is left to compute."""
        if self._cache is None:
            return []
        chain, hits = self._root, list[int]()
        for key in self._keys(sequence, 0, (sequence.num_pending - 1) // self._block_size):
            known = chain.follow(key)
            block = self._cache.find(known) if known else None
            if known is None or block is None:
                break
            chain = known
            hits.append(block)
        return hits

    def remember(self, sequence: Sequence, table: list[int], num_tokens: int) -> None:
        """The blocks that `num_tokens` tokens fill can be found from now on.

        Called before the step that fills them runs: every layer writes the whole batch's keys and values
        before attention reads any, so a later request of the same step may use them already.
        """
        if self._cache is None:
            return
        chains = self._chains.setdefault(sequence, [])
        for key in self._keys(sequence, len(chains), num_tokens // self._block_size):
            chain = (chains[-1] if chains else self._root).extend(key)
            chain.retain()
            block = table[len(chains)]
            chains.append(chain)
            if not self._cache.holds(block):
                self._cache.add(block, chain)

    def chains_of(self, sequence: Sequence) -> list[Chain]:
        """The identities of the sequence's full blocks, as a list of its own."""
        return self._chains.get(sequence, [])[:]

    def adopt(self, sequence: Sequence, chains: list[Chain]) -> None:
        """The sequence goes on from blocks with these identities, whatever it had before."""
        for chain in chains:
            chain.retain()
        self.leave(sequence)
        if chains:
            self._chains[sequence] = chains[:]

    def leave(self, sequence: Sequence) -> None:
        """The sequence gives up its blocks; what the cache holds stays."""
        for chain in reversed(self._chains.pop(sequence, [])):
            chain.release()

    def _keys(self, sequence: Sequence, first: int, stop: int) -> Iterator[Hashable]:
        size = self._block_size
        for place in range(first, stop):
            yield block_key(sequence.request, sequence.index, place * size, (place + 1) * size)
