"""Which replica a request goes to. A router sees requests go in and come out, never into a server."""

from collections.abc import Callable, Sequence
from typing import Protocol

from sim.config import Config
from sim.prompts import BlockNames
from sim.request import Request

MIN_KNOWN_SHARE = 0.5  # of a prompt: below it, affinity would gather all who share a system prompt
MAX_LOAD_RATIO = 2  # a replica with more than so many times the least load is too busy for affinity


def promised_tokens(request: Request) -> int:
    """Prompt and output tokens at most: what a request weighs from its arrival to its end."""
    return request.width * (request.prompt + request.max_tokens)


class Router(Protocol):
    """Chooses once, at arrival. Equal arguments in equal order give equal choices."""

    def choose(self, request: Request, loads: Sequence[int]) -> int:
        """A replica, given the `promised_tokens` of the unfinished requests at each."""
        ...


class RoundRobin:
    """One after the other."""

    def __init__(self, config: Config) -> None:
        self._next = 0

    def choose(self, request: Request, loads: Sequence[int]) -> int:
        chosen = self._next % len(loads)
        self._next += 1
        return chosen


class LeastTokens:
    """Where the fewest tokens are outstanding; the first of equals."""

    def __init__(self, config: Config) -> None:
        pass

    def choose(self, request: Request, loads: Sequence[int]) -> int:
        return loads.index(min(loads))


class PrefixAffinity:
    """Where the longest start of the prompt went before, if that is half of it or more, and not too busy.

    Otherwise, where the fewest tokens are outstanding. It remembers every full block that it ever sent
    somewhere, and cannot know what a replica has evicted since.
    """

    def __init__(self, config: Config) -> None:
        self._block_size = config.block_size
        self._names = BlockNames(config.block_size)
        self._went_to: list[set[int]] = []  # replica -> blocks

    def choose(self, request: Request, loads: Sequence[int]) -> int:
        self._went_to = self._went_to or [set() for _ in loads]
        blocks = self._names.name(request)[: request.prompt // self._block_size]
        known = [_num_known(blocks, there) for there in self._went_to]
        best = known.index(max(known))
        is_known = known[best] * self._block_size >= MIN_KNOWN_SHARE * request.prompt
        is_busy = loads[best] > MAX_LOAD_RATIO * min(loads) + promised_tokens(request)
        chosen = best if is_known and not is_busy else loads.index(min(loads))
        self._went_to[chosen].update(blocks)
        return chosen


def _num_known(blocks: tuple[int, ...], there: set[int]) -> int:
    return next((place for place, block in enumerate(blocks) if block not in there), len(blocks))


ROUTERS: dict[str, Callable[[Config], Router]] = {
    "round-robin": RoundRobin,
    "least-tokens": LeastTokens,
    "prefix-affinity": PrefixAffinity,
}
