"""Where the keys and values of a sequence lie: in blocks that a table lists, or in one run of slots.

    paged       token t of sequence i  ->  cache[table[i, t // block_size], t % block_size]
    contiguous  token t of sequence i  ->  arena[starts[i] + t]

Both answer the same questions, so each backend is written once. To a kernel, a contiguous arena is a paged
cache whose block k begins at slot k and never ends: a table with one column, `starts`, and a block
stride of one slot.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

Strides = tuple[int, int, int]  # elements from one block, one slot, one kv head to the next


class Stored(NamedTuple):
    """The cache of one layer. 8-bit codes may have a scale for each token and kv head beside them."""

    keys: Tensor  # the last dimension is head_dim
    values: Tensor
    key_scales: Tensor | None = None  # float32, of the same shape without head_dim: number = code * scale
    value_scales: Tensor | None = None


class KV(Protocol):
    """Keys and values of a batch. Reading token t of sequence i touches its own slot and nothing else."""

    @property
    def stored(self) -> Stored:
        """As the user gave it."""
        ...

    @property
    def num_seqs(self) -> int:
        """Sequences in the batch."""
        ...

    @property
    def num_kv_heads(self) -> int:
        """Heads that are stored; query heads share them in equal groups."""
        ...

    @property
    def head_dim(self) -> int:
        """Numbers in one key."""
        ...

    @property
    def table(self) -> Tensor:
        """[num_seqs, columns], int32 or int64: block ids, or first slots."""
        ...

    @property
    def block_size(self) -> int:
        """Tokens that one column of the table covers."""
        ...

    @property
    def max_tokens(self) -> int:
        """No sequence of the batch can be longer."""
        ...

    def strides(self, cache: Tensor) -> Strides:
        """Of a tensor of `stored`."""
        ...

    def gather(self, cache: Tensor, sequence: int, positions: Tensor) -> Tensor:
        """A copy of the slots of these token positions: [len(positions), num_kv_heads, ...]."""
        ...

    def over(self, stored: Stored) -> "KV":
        """The same places in another layer's cache."""
        ...


@dataclass(frozen=True, slots=True)
class PagedKV:
    """Caches [num_blocks, block_size, num_kv_heads, head_dim], `table` int32 [num_seqs, max_blocks]."""

    stored: Stored
    table: Tensor

    @property
    def num_seqs(self) -> int:
        """Sequences in the batch."""
        return self.table.shape[0]

    @property
    def num_kv_heads(self) -> int:
        """Heads that are stored."""
        return self.stored.keys.shape[2]

    @property
    def head_dim(self) -> int:
        """Numbers in one key."""
        return self.stored.keys.shape[3]

    @property
    def block_size(self) -> int:
        """Slots in a block."""
        return self.stored.keys.shape[1]

    @property
    def max_tokens(self) -> int:
        """What a full row of the table holds."""
        return self.table.shape[1] * self.block_size

    def strides(self, cache: Tensor) -> Strides:
        """Elements from one block, slot, head to the next."""
        return cache.stride(0), cache.stride(1), cache.stride(2)

    def gather(self, cache: Tensor, sequence: int, positions: Tensor) -> Tensor:
        """A copy, through the table."""
        blocks = self.table[sequence, positions // self.block_size].to(torch.int64)
        return cache[blocks, positions % self.block_size]

    def over(self, stored: Stored) -> "PagedKV":
        """The same table."""
        return replace(self, stored=stored)


@dataclass(frozen=True, slots=True)
class ContiguousKV:
    """Arenas [num_slots, num_kv_heads, head_dim], `starts` int64 [num_seqs]: the first slot of each."""

    stored: Stored
    starts: Tensor
    max_seq_len: int | None = None  # no sequence is longer, where that is known

    @property
    def num_seqs(self) -> int:
        """Sequences in the batch."""
        return self.starts.shape[0]

    @property
    def num_kv_heads(self) -> int:
        """Heads that are stored."""
        return self.stored.keys.shape[1]

    @property
    def head_dim(self) -> int:
        """Numbers in one key."""
        return self.stored.keys.shape[2]

    @property
    def block_size(self) -> int:
        """One `block` reaches over the whole arena."""
        return max(self.stored.keys.shape[0], 1)

    @property
    def max_tokens(self) -> int:
        """What is known of the sequences, or the whole arena."""
        num_slots = self.stored.keys.shape[0]
        return num_slots if self.max_seq_len is None else min(self.max_seq_len, num_slots)

    @property
    def table(self) -> Tensor:
        """One column: each sequence's block begins at its first slot."""
        return self.starts.unsqueeze(1)

    def strides(self, cache: Tensor) -> Strides:
        """Blocks begin at every slot."""
        return cache.stride(0), cache.stride(0), cache.stride(1)

    def gather(self, cache: Tensor, sequence: int, positions: Tensor) -> Tensor:
        """A copy."""
        return cache[self.starts[sequence] + positions]

    def over(self, stored: Stored) -> "ContiguousKV":
        """The same starts."""
        return replace(self, stored=stored)
