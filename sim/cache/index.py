"""The prefix cache as an allocator uses it: sequences on one side, blocks on the other."""

from collections.abc import Hashable, Iterator, Mapping

from sim.cache.chain import Chain
from sim.cache.content import block_key
from sim.cache.prefix import PrefixCache
from sim.horizon import SlidingWindow
from sim.request import Sequence
from sim.tables import HOLE


class PrefixIndex:
    """Finds the cached start of a sequence, and tells the cache which blocks became full.

    Without a cache it finds and remembers nothing. With a sliding window a hit needs only the blocks that
    the next query reads: what lies before them comes as holes, whether or not it is still cached.
    """

    def __init__(
        self, cache: PrefixCache | None, block_size: int, window: SlidingWindow | None = None
    ) -> None:
        self._cache = cache
        self._window = window
        self._block_size = block_size
        self._root = Chain(None, None)
        self._chains: dict[Sequence, list[Chain]] = {}  # of the full blocks of sequences that hold memory

    def find(self, sequence: Sequence, most: int | None = None) -> list[int]:
        """Cached blocks, `most` at most, that hold the start of what a waiting sequence has pending.

        One token is left to compute, even where all are cached.
        """
        if self._cache is None:
            return []
        stop = (sequence.num_pending - 1) // self._block_size
        chain, hits = self._root, list[int]()
        for key in self._keys(sequence, 0, stop if most is None else min(stop, most)):
            known = chain.follow(key)
            block = self._cache.find(known) if known else None
            if known is None or (block is None and not self._window):
                break
            chain = known
            hits.append(HOLE if block is None else block)
        return longest_hit(hits, self._window, self._block_size) if self._window else hits

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
            if block != HOLE and not self._cache.holds(block):
                self._cache.add(block, chain)

    def unlearn(self, table: list[int], num_written: int) -> None:
        """Blocks that were to be filled by a step that its sequence will not run after all are not found."""
        for block in table[num_written // self._block_size :] if self._cache else ():
            if self._cache and self._cache.holds(block):
                self._cache.forget(block)

    def chains_of(self, sequence: Sequence) -> list[Chain]:
        """The identities of the sequence's full blocks, as a list of its own."""
        return self._chains.get(sequence, [])[:]

    def adopt(self, chains_of: Mapping[Sequence, list[Chain]]) -> None:
        """These sequences go on, all at once, from blocks with these identities, whatever they had before."""
        for chain in (chain for chains in chains_of.values() for chain in chains):
            chain.retain()  # before any is released: one may take over what another gives up
        for sequence, chains in chains_of.items():
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


def longest_hit(blocks: list[int], window: SlidingWindow, block_size: int) -> list[int]:
    """The longest start of `blocks` whose sinks and last window are all there; its other places are holes.

    [sinks][ may be missing ][window - 1 tokens] | next query
    """
    first_missing = next((place for place, block in enumerate(blocks) if block == HOLE), len(blocks))
    best: tuple[int, int, int] = (0, 0, 0)
    unbroken = 0  # blocks at the end of the first `count` that are all there
    for count, block in enumerate(blocks, start=1):
        unbroken = 0 if block == HOLE else unbroken + 1
        num_sinks, first = window.needed_places(count, block_size)
        if num_sinks <= first_missing and count - first <= unbroken:
            best = (count, num_sinks, first)
    count, num_sinks, first = best
    return [
        block if place < num_sinks or place >= first else HOLE for place, block in enumerate(blocks[:count])
    ]
