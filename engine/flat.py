"""A batch as flat tensors: what the scheduler decided, in the form that the model and the kernels read.

    S sequences   decodes first, then prefill chunks, each kind in the batch's order
    T tokens      those of sequence 0, then those of sequence 1, ...

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
    prefill_starts: Tensor  # int32 [S - num_decodes + 1], tokens before each prefill chunk; the last is all
    emitting: Tensor  # int64 [E], tokens after which something is emitted

    @property
    def emitting_chunks(self) -> list[Chunk]:
        """The chunk of each entry of `emitting`."""
        return [chunk for chunk in self.chunks if chunk.emits]


def flatten(
    chunks: Items[Chunk],
    tokens: Mapping[str, NDArray[np.int64]],
    rows: Mapping[str, int],
    device: torch.device,
) -> FlatBatch:
    """`tokens` holds all tokens known of each request, `rows` its row in the pool's table."""
    decodes = [chunk for chunk in chunks if not chunk.is_prefill]
    ordered = decodes + [chunk for chunk in chunks if chunk.is_prefill]
    lengths = np.array([chunk.num_tokens for chunk in ordered], dtype=np.int64)
    contexts = np.array([chunk.context for chunk in ordered], dtype=np.int64)
    ends = np.cumsum(lengths)
    sequence_of = np.repeat(np.arange(len(ordered)), lengths)
    ids = [tokens[c.sequence.request.id][c.start : c.context] for c in ordered]
    parts = [
        np.concatenate(ids),
        # Token i of the flat batch is `ends - i` before the end of its sequence's context.
        (contexts - ends)[sequence_of] + np.arange(ends[-1]),
        sequence_of,
        np.array([rows[chunk.sequence.request.id] for chunk in ordered], dtype=np.int64),
        contexts,
        np.concatenate([[0], np.cumsum(lengths[len(decodes) :])]),
        ends[[chunk.emits for chunk in ordered]] - 1,
    ]
    token_ids, positions, of, row, seq_lens, starts, emitting = to_device(parts, device)
    return FlatBatch(
        ordered, len(decodes), token_ids, positions, of, row, seq_lens.int(), starts.int(), emitting
    )


def to_device(parts: list[NDArray[np.int64]], device: torch.device) -> tuple[Tensor, ...]:
    """int64 arrays as tensors on `device`, in one transfer."""
    packed = torch.from_numpy(np.concatenate(parts)).to(device)
    return packed.split([len(part) for part in parts])
