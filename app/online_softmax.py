"""Paged attention of one query, tile by tile: the arithmetic of the decode kernels, with every number kept.

    m' = max(m, scores of the tile)          running maximum
    r  = exp(m - m')                         what older sums are scaled by
    l' = l * r + sum(exp(scores - m'))       running sum of the weights
    a' = a * r + exp(scores - m') @ values   running sum of weighted values; a' / l' is the output so far

A sequence is cut into chunks that are walked apart from one another, by other processors, and merged.
Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018); the split is Flash-Decoding's.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil

import torch
from torch import Tensor

from engine import paged_attention
from engine.attention.cpu_decode import CHUNK
from engine.attention.cpu_tiles import TILE

NUM_HEADS, NUM_KV_HEADS, HEAD_DIM = 4, 2, 64  # of model "tiny"
LOG2E = 1.4426950408889634
NEEDLE = 1.0  # the needle's key is so many times the query: its score is near sqrt(HEAD_DIM)


@dataclass(frozen=True, slots=True)
class Walk:
    """How a kernel walks: `tile` tokens between two looks at the maximum, `chunk` tokens by one processor.

    `is_base_2`: scores are multiplied by log2(e), and weights are powers of two: the same numbers, and a GPU
    has an instruction for it.
    """

    tile: int
    chunk: int
    is_base_2: bool = False


@dataclass(frozen=True, slots=True)
class Case:
    """One sequence in a pool of which nobody else's slots hold numbers."""

    query: Tensor  # [NUM_HEADS, HEAD_DIM]
    keys: Tensor  # [num_blocks, block_size, NUM_KV_HEADS, HEAD_DIM]; NaN but for the sequence's own tokens
    values: Tensor
    table: list[int]
    num_tokens: int

    @property
    def block_size(self) -> int:
        return self.keys.shape[1]


@dataclass(frozen=True, slots=True)
class Step:
    """One tile: what was read, and the running numbers after it."""

    chunk: int
    first: int  # tokens [first, last)
    last: int
    blocks: list[int]  # logical
    scores: list[float]
    top_before: float
    top: float
    rescale: float
    tile_sum: float
    total: float
    error: float  # of the output so far, were it the last tile of all: largest distance from dense attention


@dataclass(frozen=True, slots=True)
class Part:
    """What a chunk brings to the merge: its maximum, its sum, and what its sums are scaled by there."""

    first: int
    last: int
    top: float
    total: float
    scale: float
    share: float  # of all weight


@dataclass(frozen=True, slots=True)
class Walked:
    """A whole walk, and what other ways of computing the same give."""

    steps: list[Step]
    parts: list[Part]
    output: Tensor  # [HEAD_DIM]
    dense: Tensor
    errors: dict[str, float]  # largest distance from dense attention, by way of computing


def walks(block_size: int, num_tokens: int) -> dict[str, Walk]:
    """By name. The GPU's is not there where Triton is not installed."""
    known = {
        "block by block": Walk(block_size, num_tokens),
        "CPU kernel": Walk(TILE, CHUNK),
    }
    try:
        from engine.attention.triton_config import DECODE, max_chunks, min_chunk_tokens
    except ValueError:  # no Triton for this system
        return known
    tile = DECODE[torch.float32.itemsize, HEAD_DIM].tile
    least = -(-min_chunk_tokens(NUM_HEADS // NUM_KV_HEADS) // tile)
    tiles = max(least, ceil(num_tokens / tile / max_chunks(NUM_KV_HEADS)))
    return {**known, "GPU kernel": Walk(tile, tiles * tile, is_base_2=True)}


def make_case(
    table: Sequence[int], num_tokens: int, block_size: int, num_blocks: int, *, needle: int, seed: int = 0
) -> Case:
    """Keys, values and a query from a seed; the key at position `needle` points along the query."""
    generator = torch.Generator().manual_seed(seed)
    query = torch.randn(NUM_HEADS, HEAD_DIM, generator=generator)
    keys, values = torch.randn(2, num_tokens, NUM_KV_HEADS, HEAD_DIM, generator=generator)
    keys[needle] = NEEDLE * query[:: NUM_HEADS // NUM_KV_HEADS]
    positions = torch.arange(num_tokens)
    blocks = torch.tensor(list(table))[positions // block_size]
    pools = torch.full((2, num_blocks, block_size, NUM_KV_HEADS, HEAD_DIM), float("nan"))
    pools[0, blocks, positions % block_size] = keys
    pools[1, blocks, positions % block_size] = values
    return Case(query, pools[0], pools[1], list(table), num_tokens)


def walk(case: Case, how: Walk, head: int = 0) -> Walked:
    """Every tile of every chunk, the merge, and the same by dense attention and by the engine's kernels."""
    dense = dense_attention(case, head)
    steps: list[Step] = []
    chunks: list[tuple[Tensor, Tensor, Tensor]] = []
    for number, first in enumerate(range(0, case.num_tokens, how.chunk)):
        last = min(first + how.chunk, case.num_tokens)
        found, state = walk_chunk(case, how, head, number, first, last, dense)
        steps += found
        chunks.append(state)
    parts, output = merge(chunks, how, case.num_tokens)
    errors = {"tile by tile, as above": distance(output, dense)}
    for name, backend in (("the engine's CPU kernel", "cpu"), ("the engine's slow reference", "torch")):
        errors[name] = distance(by_engine(case, backend)[head], dense)
    return Walked(steps, parts, output, dense, errors)


def walk_chunk(
    case: Case, how: Walk, head: int, number: int, first: int, last: int, dense: Tensor
) -> tuple[list[Step], tuple[Tensor, Tensor, Tensor]]:
    """The tiles of tokens [first, last): their steps, and maximum, sum and weighted values at the end."""
    exp = exponential(how)
    top, total, sums = torch.tensor(-torch.inf), torch.tensor(0.0), torch.zeros(HEAD_DIM)
    steps: list[Step] = []
    for start in range(first, last, how.tile):
        stop = min(start + how.tile, last)
        keys, values = rows(case, head, start, stop)
        scores = keys @ case.query[head] * HEAD_DIM**-0.5 * (LOG2E if how.is_base_2 else 1.0)
        before, top = top, torch.maximum(top, scores.max())
        weights, rescale = exp(scores - top), exp(before - top)
        tile_sum = weights.sum()
        total = total * rescale + tile_sum
        sums = sums * rescale + weights @ values
        blocks = sorted({place // case.block_size for place in range(start, stop)})
        numbers = (float(before), float(top), float(rescale), float(tile_sum), float(total))
        error = distance(sums / total, dense)
        steps.append(Step(number, start, stop, blocks, scores.tolist(), *numbers, error))
    return steps, (top, total, sums)


def merge(
    chunks: Sequence[tuple[Tensor, Tensor, Tensor]], how: Walk, num_tokens: int
) -> tuple[list[Part], Tensor]:
    """Chunk c counts exp(m_c - m) times, m being the largest maximum."""
    exp = exponential(how)
    highest = torch.stack([top for top, _, _ in chunks]).max()
    scales = [exp(top - highest) for top, _, _ in chunks]
    total = torch.stack([scale * one for scale, (_, one, _) in zip(scales, chunks, strict=True)]).sum()
    sums = torch.stack([scale * one for scale, (_, _, one) in zip(scales, chunks, strict=True)]).sum(0)
    parts = [
        Part(
            place * how.chunk,
            min((place + 1) * how.chunk, num_tokens),
            float(top),
            float(one),
            float(scale),
            float(scale * one / total),
        )
        for place, (scale, (top, one, _)) in enumerate(zip(scales, chunks, strict=True))
    ]
    return parts, sums / total


def exponential(how: Walk) -> Callable[[Tensor], Tensor]:
    """Of which base the weights are powers."""
    return torch.exp2 if how.is_base_2 else torch.exp


def rows(case: Case, head: int, start: int, stop: int) -> tuple[Tensor, Tensor]:
    """Keys and values of tokens [start, stop), found through the block table: [tokens, HEAD_DIM] each."""
    kv_head = head // (NUM_HEADS // NUM_KV_HEADS)
    positions = torch.arange(start, stop)
    blocks = torch.tensor(case.table)[positions // case.block_size]
    offsets = positions % case.block_size
    return case.keys[blocks, offsets, kv_head], case.values[blocks, offsets, kv_head]


def dense_attention(case: Case, head: int) -> Tensor:
    """softmax(keys @ query) @ values, all at once over contiguous tensors: [HEAD_DIM]."""
    keys, values = rows(case, head, 0, case.num_tokens)
    return torch.softmax(keys @ case.query[head] * HEAD_DIM**-0.5, dim=0) @ values


def by_engine(case: Case, backend: str) -> Tensor:
    """What `paged_attention` gives: [NUM_HEADS, HEAD_DIM]."""
    table = torch.tensor([case.table], dtype=torch.int32)
    length = torch.tensor([case.num_tokens], dtype=torch.int32)
    return paged_attention(case.query[None], case.keys, case.values, table, length, backend=backend)[0]


def distance(one: Tensor, other: Tensor) -> float:
    """The largest absolute difference of any element."""
    return float((one - other).abs().max())
