"""A batch as flat tensors: what the scheduler decided, in the form that the model and the kernels read.

    S sequences   decodes of one token first, then the others, each kind in the batch's order
    T tokens      those of sequence 0, then those of sequence 1, ...
    E emissions   tokens whose logits are wanted: a chunk's last one, and one before it for each draft

All is built with one pass over the batch's chunks and moved to the device in one transfer.
"""

from collections.abc import Mapping
from collections.abc import Sequence as Items
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sim.batch import Chunk


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
    prefill_starts: Tensor  # int32 [S - num_decodes + 1], tokens before each longer chunk; the last is all
    emitting: Tensor  # int64 [E], tokens whose logits are wanted

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
    decodes = [chunk for chunk in chunks if is_plain_decode(chunk)]
    ordered = decodes + [chunk for chunk in chunks if not is_plain_decode(chunk)]
    lengths = np.array([chunk.num_tokens for chunk in ordered], dtype=np.int64)
    contexts = np.array([chunk.context for chunk in ordered], dtype=np.int64)
    ends = np.cumsum(lengths)
    sequence_of = np.repeat(np.arange(len(ordered)), lengths)
    names = [chunk.sequence.name for chunk in ordered]
    ids = [tokens[name][c.start : c.context] for name, c in zip(names, ordered, strict=True)]
    parts = [
        np.concatenate(ids),
        # Token i of the flat batch is `ends - i` before the end of its sequence's context.
        (contexts - ends)[sequence_of] + np.arange(ends[-1]),
        sequence_of,
        np.array([rows[name] for name in names], dtype=np.int64),
        contexts,
        np.concatenate([[0], np.cumsum(lengths[len(decodes) :])]),
        emitting_tokens(ordered, ends),
    ]
    token_ids, positions, of, row, seq_lens, starts, emitting = to_device(parts, device)
    return FlatBatch(
        ordered, len(decodes), token_ids, positions, of, row, seq_lens.int(), starts.int(), emitting
    )


def is_plain_decode(chunk: Chunk) -> bool:
    """Whether the chunk is one query that goes through the decode kernel."""
    return not chunk.is_prefill and chunk.num_tokens == 1


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
