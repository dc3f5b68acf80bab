"""How large a tile each Triton kernel takes, and with how many warps and pipeline stages.

Decode stages are odd: loads whose address comes from a loaded block id are pipelined in
(num_stages - 2) / 2 buffers, rounded up, so 5 gives two and 4 no more than 3 does. Kept small enough
that two or three programs share a multiprocessor (16-bit elements, head_dim 128: 72 KiB of its 228).
Tiles with float32 factors are small, with 8 warps: larger ones spill.
"""

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class Launch:
    """`rows` (query tokens times heads) and `tile` keys a round; decode rows grow with the group, to 64."""

    rows: int
    tile: int
    num_warps: int
    num_stages: int


#  bytes of a factor, padded head_dim -> launch
DECODE = {
    (2, 16): Launch(16, 128, 4, 5),
    (2, 32): Launch(16, 128, 4, 5),
    (2, 64): Launch(16, 128, 4, 5),
    (2, 128): Launch(16, 64, 4, 5),
    (2, 256): Launch(16, 32, 4, 5),
    (4, 16): Launch(16, 32, 8, 3),
    (4, 32): Launch(16, 32, 8, 3),
    (4, 64): Launch(16, 32, 8, 3),
    (4, 128): Launch(16, 32, 8, 3),
    (4, 256): Launch(16, 16, 8, 3),
}
MAX_DECODE_ROWS = 64
PREFILL = {
    (2, 16): Launch(128, 64, 8, 3),
    (2, 32): Launch(128, 64, 8, 3),
    (2, 64): Launch(128, 64, 8, 3),
    (2, 128): Launch(128, 32, 8, 3),  # 64 keys spill on sm_80
    (2, 256): Launch(64, 32, 8, 3),  # so do 128 rows
    (4, 16): Launch(32, 32, 8, 3),
    (4, 32): Launch(32, 32, 8, 3),
    (4, 64): Launch(32, 32, 8, 3),
    (4, 128): Launch(32, 16, 8, 3),
    (4, 256): Launch(32, 16, 8, 3),
}
CONTIGUOUS_STAGES = 3  # no block ids to wait for: two buffers already at 3
MIN_CHUNK = 256


def chunk_tokens(group: int) -> int:
    """Tokens per chunk: what a chunk writes for the second kernel stays below 1/32 of what it reads.

    It depends on nothing in the batch, so a sequence is cut the same way in any company.
    """
    return max(MIN_CHUNK, 64 * group)


def factor_dtype(query_dtype: torch.dtype, cache_dtype: torch.dtype, *, interpreted: bool) -> torch.dtype:
    """The dtype of the factors of the matrix products.

    Triton's interpreter computes wrongly in bfloat16 (triton issues 4972, 11584), but converts it well.
    """
    if torch.float32 in (query_dtype, cache_dtype) or (interpreted and query_dtype == torch.bfloat16):
        return torch.float32
    return query_dtype


def power_of_two(number: int) -> int:
    """The smallest that is no less than `number`."""
    return 1 << (number - 1).bit_length()
