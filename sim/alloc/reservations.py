"""How many slots a request reserves on admission: the baselines of the paper (section 6.1).

Pow2 and Oracle are the only ones that know the true output length; it is their definition.
"""

from collections.abc import Callable

from sim.alloc.buddy import next_pow2
from sim.request import Request


def longest(request: Request, max_len: int) -> int:
    """Orca (Max), FasterTransformer: as many as any request could need."""
    return max_len


def next_power(request: Request, max_len: int) -> int:
    """Orca (Pow2): room for at most twice the true output."""
    return min(request.prompt + next_pow2(request.output), max_len)


def exact(request: Request, max_len: int) -> int:
    """Orca (Oracle): what it will need."""
    return request.final_tokens


RESERVATIONS: dict[str, Callable[[Request, int], int]] = {
    "max": longest,
    "pow2": next_power,
    "oracle": exact,
}
