"""The prompts of a trace as ids of blocks: equal ids mean equal tokens, and equal tokens before them."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from sim.cache import block_key
from sim.errors import InputError
from sim.request import Request

USUAL_BLOCK_SIZE = 16


class BlockNames:
    """Gives each chain of block contents a number, the same for the same chain."""

    def __init__(self, block_size: int) -> None:
        self._block_size = block_size
        self._names: dict[tuple[int, Hashable], int] = {}

    def name(self, request: Request) -> tuple[int, ...]:
        """The ids of the prompt's blocks, a partial last one included."""
        size, names = self._block_size, self._names
        parent = -1
        blocks: list[int] = []
        for start in range(0, request.prompt, size):
            key = block_key(request, 0, start, min(start + size, request.prompt))
            parent = names.setdefault((parent, key), len(names))
            blocks.append(parent)
        return tuple(blocks)


@dataclass(frozen=True, slots=True)
class PromptBlocks:
    """`blocks[i]` are the ids of the i-th prompt, which has `lengths[i]` tokens; all in the trace's order."""

    block_size: int
    blocks: list[tuple[int, ...]]
    lengths: list[int]

    @classmethod
    def of(cls, requests: Iterable[Request], block_size: int | None = None) -> "PromptBlocks":
        """Blocks of the size in which the trace names its prompts, or of `block_size`.

        A trace that names no blocks has token ids or shared prefixes: 16 tokens where no size is given.
        Raises InputError when the trace names blocks of several sizes and no size is given.
        """
        requests = list(requests)
        own = {request.block_tokens for request in requests if request.block_tokens is not None}
        if block_size is None and len(own) > 1:
            sizes = ", ".join(map(str, sorted(own)))
            raise InputError(f"the trace names blocks of {sizes} tokens; choose one size with --block-size")
        size = next(iter(own), USUAL_BLOCK_SIZE) if block_size is None else block_size
        if size < 1:
            raise InputError(f"block size {size}: must be at least 1 (16 is usual)")
        if all(request.block_tokens == size for request in requests):
            blocks = [request.blocks or () for request in requests]
        else:
            blocks = [*map(BlockNames(size).name, requests)]
        return cls(size, blocks, [request.prompt for request in requests])
