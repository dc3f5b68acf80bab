"""A batch as flat tensors: what the scheduler decided, in the form that the model and the kernels read.

    S sequences   decodes of one token first, then short chunks, then long ones, each in the batch's order
    T tokens      those of sequence 0, then those of sequence 1, ...
    E emissions   tokens whose logits are wanted: a chunk's last one, and one before it for each draft

All is built with one pass over the batch's chunks and moved to the device in one transfer.
"""

from collections.abc import Mapping
from collections.abc import Sequence as Items
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.attention.backends import MAX_SHORT
from sim.batch import Chunk


class Span(NamedTuple):
    """Sequences that follow one another in the batch and go through one kernel."""

    sequences: slice
    tokens: slice
    starts: Tensor | None = None  # int32, tokens before each of them within the span, and all; None: one each
    max_query_len: int | None = None  # most tokens of a sequence, where that is few
    is_prefill: bool = False  # whether all chunks are parts of inputs


@dataclass(frozen=True, slots=True)
class FlatBatch:
    """Tensors of one step, on the model's device."""

    chunks: list[Chunk]  # in the order of the tensors
    num_decodes: int
    token_ids: Tensor  # int64 [T]
    positions: Tensor  # int64 [T]
    sequence_of: Tensor  # int64 [T], 0 to S - 1
    rows: Tensor  # int64 [S], the sequence's row in the pool's table
    seq_lens: Tensor  # int32 [S], tokens in the cache after this step's writes
    emitting: Tensor  # int64 [E], tokens whose logits are wanted
    spans: list[Span]  # not one of them empty
    longest: int  # tokens of the longest sequence

    @property
    def emitting_chunks(self) -> list[Chunk]:
        """The chunks that have entries in `emitting`, in its order: `num_drafts` + 1 each."""
        return [chunk for chunk in self.chunks if chunk.emits]


def flatten(
    chunks: Items[Chunk],
    tokens: Mapping[str, NDArray[np.int64]],
    rows: Mapping[str, int],
    device: torch.device,
) -> FlatBatch:
    """`tokens` holds all tokens known of each sequence and its drafts, `rows` its row in the pool's table.

    Drafts are verified all at once, as the tokens of a prompt are read: each sees those before it.
    """
    ordered = sorted(chunks, key=kind_of)
    lengths = np.array([chunk.num_tokens for chunk in ordered], dtype=np.int64)
    contexts = np.array([chunk.context for chunk in ordered], dtype=np.int64)
    ends = np.cumsum(lengths)
    sequence_of = np.repeat(np.arange(len(ordered)), lengths)
    names = [chunk.sequence.name for chunk in ordered]
    ids = [tokens[name][c.start : c.context] for name, c in zip(names, ordered, strict=True)]
    kinds = np.array([kind_of(chunk) for chunk in ordered])
    num_decodes, num_short = int((kinds == DECODE).sum()), int((kinds == SHORT).sum())
    bounds = (0, num_decodes, num_decodes + num_short, len(ordered))
    starts = [np.concatenate([[0], np.cumsum(lengths[a:b])]) for a, b in pairwise(bounds[1:])]
    parts = [
        np.concatenate(ids),
        # Token i of the flat batch is `ends - i` before the end of its sequence's context.
        (contexts - ends)[sequence_of] + np.arange(ends[-1]),
        sequence_of,
        np.array([rows[name] for name in names], dtype=np.int64),
        contexts,
        emitting_tokens(ordered, ends),
        *starts,
    ]
    token_ids, positions, of, row, seq_lens, emitting, *starts = to_device(parts, device)
    spans = make_spans(ordered, bounds, starts)
    longest = int(contexts.max())
    return FlatBatch(
        ordered, num_decodes, token_ids, positions, of, row, seq_lens.int(), emitting, spans, longest
    )


DECODE, SHORT, LONG = range(3)


def kind_of(chunk: Chunk) -> int:
    """Which kernel takes it: one query, a few (drafts to be verified, a short chunk), or any number.

    It depends on the chunk alone, so that no result does on the rest of the batch.
    """
    if chunk.num_tokens > MAX_SHORT:
        return LONG
    return SHORT if chunk.is_prefill or chunk.num_tokens > 1 else DECODE


def make_spans(chunks: list[Chunk], bounds: tuple[int, ...], starts: Items[Tensor]) -> list[Span]:
    """`chunks` by kind, of which kind k has [bounds[k], bounds[k + 1]); `starts` of all kinds but decodes."""
    spans: list[Span] = []
    end = 0
    for kind, (a, b) in enumerate(pairwise(bounds)):
        first, end = end, end + sum(chunk.num_tokens for chunk in chunks[a:b])
        if a == b:
            continue
        span = Span(slice(a, b), slice(first, end))
        if kind != DECODE:
            is_prefill = all(chunk.is_prefill for chunk in chunks[a:b])
            span = Span(*span[:2], starts[kind - 1].int(), MAX_SHORT if kind == SHORT else None, is_prefill)
        spans.append(span)
    return spans


def emitting_tokens(chunks: list[Chunk], ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """Places in the flat batch of the tokens whose logits are wanted; `ends` is where each chunk ends."""
    emits = np.array([chunk.emits for chunk in chunks], dtype=np.bool_)
    drafts = np.array([chunk.num_drafts for chunk in chunks], dtype=np.int64)
    if not drafts.any():
        return ends[emits] - 1
    wanted = [np.arange(end - 1 - n, end) for end, n in zip(ends[emits], drafts[emits], strict=True)]
    return np.concatenate(wanted) if wanted else ends[:0]


def to_device(parts: list[NDArray[np.int64]], device: torch.device) -> tuple[Tensor, ...]:
    """int64 arrays as tensors on `device`, in one transfer."""
    packed = torch.from_numpy(np.concatenate(parts)).to(device)
    return packed.split([len(part) for part in parts])
