"""Fills and copies of whole blocks, put off until they can go out together or something depends on them.

    fill       the sentinel, into blocks that were released
    copy       one block over another: copy-on-write, before one owner writes
    exchange   the same for blocks that sequences keep: all copies read before any writes

At most one kind waits at a time, so the order of the log is kept.
"""

from collections.abc import Iterable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.attention import copy_blocks
from engine.attention.copy import move
from engine.sentinel import fill, sentinel_bits


class BlockWork:
    """What is still to be done to `storage` [num_blocks, ...], whose `parts` are of several dtypes."""

    def __init__(self, storage: Tensor, parts: list[Tensor]) -> None:
        self._storage = storage
        self._parts = parts
        self._fills: list[int] = []
        self._copies: list[tuple[int, int]] = []
        self._exchanges: list[tuple[int, int]] = []

    def fill(self, blocks: Iterable[int]) -> None:
        """These blocks hold nothing any more."""
        if self._copies or self._exchanges:
            self.settle()
        self._fills.extend(blocks)

    def copy(self, source: int, destination: int) -> None:
        """One block over another."""
        touched = {block for pair in self._copies for block in pair}
        written = {written for _, written in self._copies}
        if self._fills or self._exchanges or source in written or destination in touched:
            self.settle()
        self._copies.append((source, destination))

    def exchange(self, sources: list[int], destinations: list[int]) -> None:
        """Each source over its destination, both of them blocks that stay in use."""
        if self._fills or self._copies:
            self.settle()
        self._exchanges.extend(zip(sources, destinations, strict=True))

    def fill_slots(self, blocks: NDArray[np.int64], offsets: NDArray[np.int64]) -> None:
        """Single slots [n] hold nothing any more; parts are [num_blocks, layers, 2, block_size, ...]."""
        self.settle()
        device = self._storage.device
        for bits, code in map(sentinel_bits, self._parts):
            bits[torch.from_numpy(blocks).to(device), :, :, torch.from_numpy(offsets).to(device)] = code

    def settle(self) -> None:
        """Does what waits."""
        device = self._storage.device
        if self._fills:
            for part in self._parts:
                fill(part, torch.tensor(self._fills, dtype=torch.int64, device=device))
            self._fills = []
        if self._copies:
            copy_blocks([self._storage], torch.tensor(self._copies, dtype=torch.int64))
            self._copies = []
        if self._exchanges:
            move(self._storage, self._storage, torch.tensor(self._exchanges, dtype=torch.int64))
            self._exchanges = []
