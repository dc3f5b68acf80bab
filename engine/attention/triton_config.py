"""How large a tile each attention kernel takes, and with how many warps and pipeline stages.

A table, not a search at run time: searching would stop a server at its first request of a new shape, and a
CUDA graph would freeze whatever it found. What each entry becomes is in bench/results/compile.json: nothing
spills, and decode leaves room for a second program on each multiprocessor.

Decode stages are odd: loads whose address comes from a loaded block id are pipelined in
(num_stages - 2) / 2 buffers, rounded up, so 5 gives two and 4 no more than 3 does. Without block ids, in a
contiguous arena, 3 gives two.
"""

from dataclasses import dataclass, replace

import torch

from engine.attention.triton_device import generation


@dataclass(frozen=True, slots=True)
class Launch:
    """`rows` (query tokens times heads) and `tile` keys a round; decode rows grow with the group, to 64."""

    rows: int
    tile: int
    num_warps: int
    num_stages: int


Table = dict[tuple[int, int], Launch]  # bytes of a factor, padded head_dim

DECODE: Table = {
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
PREFILL: Table = {
    (2, 16): Launch(128, 64, 8, 3),
    (2, 32): Launch(128, 64, 8, 3),
    (2, 64): Launch(128, 64, 8, 3),
    (2, 128): Launch(64, 32, 4, 3),  # on sm_80 more of either spills
    (2, 256): Launch(64, 32, 8, 3),
    (4, 16): Launch(32, 32, 8, 3),
    (4, 32): Launch(32, 32, 8, 3),
    (4, 64): Launch(32, 32, 8, 3),
    (4, 128): Launch(32, 16, 8, 3),
    (4, 256): Launch(32, 16, 8, 3),
}
# From sm_90 on, products of 64 rows and more read shared memory directly and leave registers to the sums.
# There one program has a multiprocessor to itself, so there is room for two buffers.
PREFILL_HOPPER = PREFILL | {
    (2, 16): Launch(128, 64, 8, 5),
    (2, 32): Launch(128, 64, 8, 5),
    (2, 64): Launch(128, 64, 8, 5),
    (2, 128): Launch(128, 64, 8, 5),
    (2, 256): Launch(64, 32, 8, 5),
}
# On sm_100 a spill of a register or four: fewer keys or rows, for what nearly nobody serves.
PREFILL_BLACKWELL = PREFILL_HOPPER | {
    (2, 16): Launch(128, 32, 8, 5),
    (4, 128): Launch(16, 16, 8, 3),
}
PREFILLS = {"amd": PREFILL, "ampere": PREFILL, "hopper": PREFILL_HOPPER, "blackwell": PREFILL_BLACKWELL}
# 8-bit codes that become numbers of 16 bits take registers that a larger tile needs, less so from sm_90 on.
CODES_PREFILL = {  # by padded head_dim
    "ampere": {64: Launch(128, 32, 8, 3), 128: Launch(64, 32, 8, 3), 256: Launch(32, 32, 8, 3)},
    "amd": {
        16: Launch(64, 64, 4, 3),
        32: Launch(64, 32, 4, 3),
        64: Launch(64, 32, 4, 3),
        256: Launch(32, 32, 4, 3),
    },
    "hopper": {256: Launch(32, 32, 8, 5)},
    "blackwell": {256: Launch(32, 32, 8, 5)},
}
# 8-bit codes that become float32 take more registers than what they are read from: smaller tiles.
CODES_AS_FLOAT32 = {"decode": Launch(16, 16, 8, 3), "prefill": Launch(16, 16, 8, 3)}
CONTIGUOUS_STAGES = 3
AMD_STAGES = 2

MIN_CHUNK = 256
PROGRAMS_OF_ONE = 256  # of one long sequence: two for each of some 130 multiprocessors


def decode_launch(factor_bytes: int, cache_bytes: int, block_d: int, *, is_paged: bool) -> Launch:
    """For the GPU that is there."""
    launch = DECODE[factor_bytes, block_d]
    if factor_bytes == 4 and cache_bytes == 1:
        launch = CODES_AS_FLOAT32["decode"]
    elif cache_bytes == 1 and block_d == 128 and generation() == "blackwell":
        launch = replace(launch, tile=32)
    if generation() == "amd":
        return replace(launch, num_stages=AMD_STAGES)
    return launch if is_paged else replace(launch, num_stages=CONTIGUOUS_STAGES)


def prefill_launch(
    factor_bytes: int, cache_bytes: int, block_d: int, *, is_paged: bool, drops: bool = False
) -> Launch:
    """For the GPU that is there. With `drops` every tile has a mask of its own, and room for it."""
    launch = PREFILLS[generation()][factor_bytes, block_d]
    if cache_bytes == 1 and factor_bytes == 4:
        launch = CODES_AS_FLOAT32["prefill"]
    elif cache_bytes == 1:
        launch = CODES_PREFILL[generation()].get(block_d, launch)
    if drops:
        launch = replace(launch, rows=min(launch.rows, 64), tile=min(launch.tile, 32))
    if generation() == "amd":
        return replace(launch, num_stages=AMD_STAGES)
    return launch if is_paged else replace(launch, num_stages=CONTIGUOUS_STAGES)


def max_decode_rows(factor_bytes: int, block_d: int) -> int:
    """Of one tile; what has more takes several, each of which reads the context.

    Sums of float32 products stand in registers, and rows of wide heads in the half of shared memory that
    leaves room for a second program.
    """
    return 16 if factor_bytes == 4 or block_d == 256 else MAX_DECODE_ROWS


def min_chunk_tokens(group: int, queries: int = 1) -> int:
    """The smallest chunk: what it writes for the second kernel stays below 1/32 of what it reads.

    With `queries` tokens of a sequence, which are seldom all there, below 1/8: a long context should still
    be shared out to many programs.
    """
    return max(MIN_CHUNK, 64 * group if queries == 1 else 16 * group * queries)


def max_chunks(num_kv_heads: int) -> int:
    """Into how many a long sequence is cut at most. It depends on nothing in the batch."""
    return min(max(PROGRAMS_OF_ONE // num_kv_heads, 16), 128)


def factor_dtype(query_dtype: torch.dtype, cache_dtype: torch.dtype, *, interpreted: bool) -> torch.dtype:
    """The dtype of the factors of the matrix products.

    float8 becomes float16 without loss and in one instruction, bfloat16 in three. Triton's interpreter
    computes wrongly in bfloat16 (triton issues 4972, 11584), but converts it well.
    """
    if torch.float32 in (query_dtype, cache_dtype):
        return torch.float32
    if cache_dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        return torch.float16
    return torch.float32 if interpreted and query_dtype == torch.bfloat16 else query_dtype


def power_of_two(number: int) -> int:
    """The smallest that is no less than `number`."""
    return 1 << (number - 1).bit_length()
