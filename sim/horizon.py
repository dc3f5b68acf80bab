"""Which stored tokens later queries still read: all of them, a sliding window, or a budget of heavy ones.

The two that forget are one rule: a query reads the `recent` last tokens, its own included, and `kept` older
ones. Tokens that are neither are dropped for good, one for every token that comes in:

    window    kept are the first S (attention sinks)    Xiao et al., "Efficient Streaming Language Models
                                                        with Attention Sinks", 2023
    heavy     kept are the H heaviest so far            Zhang et al., "H2O: Heavy-Hitter Oracle", 2023

So a horizon is an order in which tokens are dropped, and a count that follows from the tokens stored:

    [0, num_dropped(stored))     of the drop order: no query at position `stored` or later reads them
    all other stored tokens      live
"""

from bisect import insort
from random import Random
from typing import Protocol

from sim.request import Request


class Horizon(Protocol):
    """What attention can still see. Positions count from 0, the prompt's first token."""

    is_total: bool  # nothing is ever dropped

    def num_dropped(self, stored: int, *, is_prefilling: bool) -> int:
        """Tokens that the query at position `stored` and all later ones leave out."""
        ...

    def drop_order(self, request: Request, first: int, stop: int) -> list[int]:
        """Positions of the tokens that are dropped as number `first` to `stop - 1`."""
        ...

    def is_dropped(self, request: Request, start: int, stop: int, num_dropped: int) -> bool:
        """Whether *all* positions in [start, stop) are among the first `num_dropped` dropped ones."""
        ...

    def because(self) -> str:
        """Why a token is read no more, to end a sentence."""
        ...


class KeepAll:
    """Full attention: every query reads all that precedes it."""

    is_total = True

    def num_dropped(self, stored: int, *, is_prefilling: bool) -> int:
        return 0

    def drop_order(self, request: Request, first: int, stop: int) -> list[int]:
        return []

    def is_dropped(self, request: Request, start: int, stop: int, num_dropped: int) -> bool:
        return False

    def because(self) -> str:
        return "every token is read"


class SlidingWindow:
    """The query at position q reads the keys in (q - window, q] and the first `sinks` positions.

    Holds in prefill too: a later chunk does not read what lies before its window.
    """

    is_total = False

    def __init__(self, window: int, sinks: int = 0) -> None:
        self.window = window
        self.sinks = sinks

    def num_dropped(self, stored: int, *, is_prefilling: bool) -> int:
        return max(0, stored + 1 - self.window - self.sinks)

    def drop_order(self, request: Request, first: int, stop: int) -> list[int]:
        return list(range(self.sinks + first, self.sinks + stop))

    def is_dropped(self, request: Request, start: int, stop: int, num_dropped: int) -> bool:
        return start >= self.sinks and stop <= self.sinks + num_dropped

    def because(self) -> str:
        sinks = f" and the first {self.sinks}" if self.sinks else ""
        return f"attention sees the last {self.window} tokens{sinks}"

    def most_blocks(self, block_size: int, chunk: int) -> int:
        """Blocks that a sequence holds at most while it stores `chunk` tokens in one step.

        [stored - window + 1, stored)    what the chunk's first query reads, `window - 1` tokens
        [stored, stored + chunk)         what the step writes, before any of it can be dropped

        Where this range starts within a block is up to earlier chunks, so the worst start counts.
        """
        span = self.window - 1 + chunk
        return -(-self.sinks // block_size) + (span + block_size - 2) // block_size + 1

    def needed_places(self, num_blocks: int, block_size: int) -> tuple[int, int]:
        """Of the first `num_blocks` blocks, all full, those the next query reads: [0, a) and [b, ...)."""
        first = max(0, num_blocks * block_size - self.window + 1) // block_size
        return min(num_blocks, -(-self.sinks // block_size)), first


class HeavyHitters:
    """The query reads the `recent` last tokens and, of the older ones, the `heavy` heaviest.

    Prefill reads everything and drops what exceeds the budget once it is through, as H2O does. A token's
    weight stands for the attention that it draws. It is drawn once for each position of a request from a
    Pareto distribution, since measured attention is that skewed; all samples of a request share it.
    """

    is_total = False

    def __init__(self, recent: int, heavy: int, seed: int) -> None:
        self.recent = recent
        self.heavy = heavy
        self._seed = seed
        self._ranks: dict[str, _Ranking] = {}

    def num_dropped(self, stored: int, *, is_prefilling: bool) -> int:
        return 0 if is_prefilling else max(0, stored + 1 - self.recent - self.heavy)

    def drop_order(self, request: Request, first: int, stop: int) -> list[int]:
        return self._ranking(request, stop).order[first:stop]

    def is_dropped(self, request: Request, start: int, stop: int, num_dropped: int) -> bool:
        rank = self._ranking(request, num_dropped).rank
        return all(rank.get(position, num_dropped) < num_dropped for position in range(start, stop))

    def because(self) -> str:
        return f"attention sees the last {self.recent} tokens and the {self.heavy} heaviest of the others"

    def _ranking(self, request: Request, num_dropped: int) -> "_Ranking":
        ranking = self._ranks.get(request.id)
        if ranking is None:
            ranking = self._ranks[request.id] = _Ranking(Random(f"{self._seed} weight {request.id}"))
        ranking.extend(num_dropped, self.heavy)
        return ranking


class _Ranking:
    """Positions of one request in the order in which they are dropped, as far as anyone has asked.

    Tokens leave the recent ones in order of position. While more than `heavy` of them are kept, the
    lightest goes; weights never change, so who is dropped as number `i` depends on `i` alone.
    """

    def __init__(self, random: Random) -> None:
        self.order: list[int] = []
        self.rank: dict[int, int] = {}
        self._random = random
        self._kept: list[tuple[float, int]] = []  # (weight, position), lightest first
        self._num_seen = 0

    def extend(self, num_dropped: int, heavy: int) -> None:
        """Makes the first `num_dropped` entries of `order` known."""
        while len(self.order) < num_dropped:
            insort(self._kept, (self._random.paretovariate(1.0), self._num_seen))
            self._num_seen += 1
            if len(self._kept) > heavy:
                _, position = self._kept.pop(0)
                self.rank[position] = len(self.order)
                self.order.append(position)


def num_read(horizon: Horizon, start: int, num_tokens: int, *, is_prefill: bool) -> int:
    """Stored tokens that the queries of a chunk at [start, start + num_tokens) read, each counted once."""
    return start + num_tokens - horizon.num_dropped(start, is_prefilling=is_prefill)


def num_pairs(horizon: Horizon, start: int, num_tokens: int, *, is_prefill: bool) -> int:
    """(query, key) pairs of the chunk: query q reads q + 1 tokens less those dropped by then."""
    everything = num_tokens * start + num_tokens * (num_tokens + 1) // 2
    if horizon.is_total:
        return everything
    last = horizon.num_dropped(start + num_tokens - 1, is_prefilling=is_prefill)
    rising = min(last, num_tokens)  # once dropping has begun, each query leaves out one more than the last
    return everything - rising * last + rising * (rising - 1) // 2
