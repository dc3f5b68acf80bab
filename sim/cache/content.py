"""What a block holds, as a key that is equal exactly where the tokens are known to be equal.

A trace says what a prompt holds by token ids, by the ids of prefix-chained blocks, or by the name of a
shared prefix. Whatever it does not say, and every generated token, is taken as unlike all else.
"""

from collections.abc import Hashable

from sim.request import Request


def block_key(request: Request, sequence: int, start: int, stop: int) -> Hashable:
    """Key of the tokens at positions [start, stop) of one sequence of `request`, given what precedes them."""
    known = max(0, min(stop, request.prompt) - start)
    key = _prompt_key(request, start, start + known) if known else None
    if known == stop - start and key is not None:
        return key
    owner = ("generated", request.id, sequence if stop > request.prompt else None)
    return (key, owner, start, stop)


def _prompt_key(request: Request, start: int, stop: int) -> Hashable | None:
    if request.tokens is not None:
        return request.tokens[start:stop]
    if request.blocks is not None and request.block_tokens:
        size = request.block_tokens
        # An id stands for the prompt up to the end of its block, so the last one covers what it needs. Ids
        # of blocks of another size mean something else.
        return (size, request.blocks[start // size : (stop - 1) // size + 1], start % size, stop - start)
    if request.prefix is not None and stop <= request.prefix_tokens:
        return ("prefix", request.prefix, start, stop)
    return None
