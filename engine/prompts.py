"""Token ids of prompts: the trace's own where it has them, else seeded by what the trace says of them."""

from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from sim.request import Request


def prompt_ids(request: Request, seed: int, vocab: int) -> NDArray[np.int64]:
    """int64 [prompt], below `vocab`. Depends on the request and the seed, never on who else is served.

    A trace's ids may come from a larger vocabulary: they are taken modulo `vocab`. Equal block ids
    and equal prefixes give equal tokens, so what the trace says is shared really is.
    """
    if request.tokens is not None:
        return np.asarray(request.tokens, dtype=np.int64) % vocab
    if request.blocks is not None and request.block_tokens is not None:
        blocks = [_draw(seed, f"block/{block}", request.block_tokens, vocab) for block in request.blocks]
        return np.concatenate(blocks)[: request.prompt]
    ids = _draw(seed, f"request/{request.id}", request.prompt, vocab)
    if request.prefix is not None:
        ids[: request.prefix_tokens] = _draw(seed, f"prefix/{request.prefix}", request.prefix_tokens, vocab)
    return ids


def _draw(seed: int, name: str, count: int, vocab: int) -> NDArray[np.int64]:
    """The first `count` of an endless row of ids that `name` stands for."""
    return np.random.default_rng([seed, crc32(name.encode())]).integers(vocab, size=count)
