"""A trace through a cache of N blocks alone, in file order: nothing runs, nothing takes time.

What a request finds is the longest contiguous prefix of its prompt's blocks; then its blocks are put into
the cache. A partial last block is a block like any other, found by a prompt that ends alike, and counts the
tokens that it holds. Hit rates are tokens found / prompt tokens.

    fifo      blocks enter in prompt order; the one that entered first leaves
    lru       a request touches its blocks last to first, so that a prompt loses its tail before its head;
              the least recently touched leaves
    optimal   Belady's rule, which knows the future: of the cached blocks *and the new one* that is not kept
              for which the next use is farthest, by request and then by place in its prompt

With these rules all three give the hit tokens of kvcache-simulator 0.1.3 (Apache-2.0, KVCache.AI) on the
Mooncake conversation trace to the token: touching in prompt order costs LRU up to 2 points, and an optimal
cache that must take every new block loses up to 0.04. Under `lru` and `optimal` a cached block's parent is
cached too, as every use of a block is one of its parent, so what Belady's rule maximises is the sum of
contiguous hits, in blocks.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from sim.errors import InputError, unknown_name
from sim.prompts import PromptBlocks

NEVER = 1 << 62
Prompts = Sequence[tuple[int, ...]]  # block ids of each prompt, in file order
HitCounter = Callable[[Prompts, int], list[int]]  # blocks found by each prompt, in a cache of so many


@dataclass(frozen=True, slots=True)
class HitRates:
    """What one policy found in a cache of `cache_blocks`."""

    policy: str
    cache_blocks: int
    hit_tokens: int  # over the last half of the requests, which find a warm cache
    prompt_tokens: int
    hit_tokens_all: int
    prompt_tokens_all: int

    @property
    def hit_rate(self) -> float:
        """Over the last half of the requests."""
        return self.hit_tokens / self.prompt_tokens

    @property
    def hit_rate_all(self) -> float:
        """Over all requests."""
        return self.hit_tokens_all / self.prompt_tokens_all


def replay_hits(prompts: PromptBlocks, cache_blocks: int, policy: str) -> HitRates:
    """Replays `prompts` through one cache. Raises InputError for an unknown policy or an empty cache."""
    if policy not in POLICIES:
        raise unknown_name("policy", policy, POLICIES)
    if cache_blocks < 1:
        raise InputError(f"cache blocks {cache_blocks}: must be at least 1")
    counts = POLICIES[policy](prompts.blocks, cache_blocks)
    tokens = [
        min(count * prompts.block_size, length) for count, length in zip(counts, prompts.lengths, strict=True)
    ]
    start = len(tokens) // 2
    return HitRates(
        policy=policy,
        cache_blocks=cache_blocks,
        hit_tokens=sum(tokens[start:]),
        prompt_tokens=sum(prompts.lengths[start:]),
        hit_tokens_all=sum(tokens),
        prompt_tokens_all=sum(prompts.lengths),
    )


def _fifo_hits(prompts: Prompts, cache_blocks: int) -> list[int]:
    cached: set[int] = set()
    order: deque[int] = deque()
    counts: list[int] = []
    for blocks in prompts:
        counts.append(_contiguous(blocks, cached))
        for block in blocks:
            if block not in cached:
                cached.add(block)
                order.append(block)
                if len(order) > cache_blocks:
                    cached.remove(order.popleft())
    return counts


def _lru_hits(prompts: Prompts, cache_blocks: int) -> list[int]:
    cached: OrderedDict[int, None] = OrderedDict()
    counts: list[int] = []
    for blocks in prompts:
        counts.append(_contiguous(blocks, cached))
        for block in reversed(blocks):
            if block in cached:
                cached.move_to_end(block)
                continue
            cached[block] = None
            if len(cached) > cache_blocks:
                cached.popitem(last=False)
    return counts


def _optimal_hits(prompts: Prompts, cache_blocks: int) -> list[int]:
    """Uses are numbered in file order. A block that is never used again need not be kept by anyone.

    The heap holds the next uses of cached blocks, farthest first. Those that have come to pass stay in it,
    but below all others, where nobody looks.
    """
    uses = [block for blocks in prompts for block in blocks]
    cached: set[int] = set()
    farthest: list[int] = []  # heap of -(next use)
    counts: list[int] = []
    coming = iter(_next_uses(uses))
    for blocks in prompts:
        counts.append(_contiguous(blocks, cached))
        for block in blocks:
            use = next(coming)
            if use == NEVER:
                cached.discard(block)
                continue
            if len(cached) == cache_blocks and block not in cached:
                if -farthest[0] < use:
                    continue  # the new one is the farthest: it is not kept
                cached.remove(uses[-heappop(farthest)])
            cached.add(block)
            heappush(farthest, -use)
    return counts


def _next_uses(uses: list[int]) -> list[int]:
    """For each use of a block the number of the next use of the same block."""
    coming: dict[int, int] = {}
    next_use = [NEVER] * len(uses)
    for now in range(len(uses) - 1, -1, -1):
        next_use[now] = coming.get(uses[now], NEVER)
        coming[uses[now]] = now
    return next_use


def _contiguous(blocks: tuple[int, ...], cached: Container[int]) -> int:
    """How many blocks from the start of the prompt are cached."""
    for count, block in enumerate(blocks):
        if block not in cached:
            return count
    return len(blocks)


POLICIES: dict[str, HitCounter] = {"lru": _lru_hits, "fifo": _fifo_hits, "optimal": _optimal_hits}
