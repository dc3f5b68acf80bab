"""One step's attention over a pool: store the new keys and values, then decode and prefill kernels read."""

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from engine.flat import FlatBatch


class StepAttend(ABC):
    """`engine.model.Attend` for one batch. A subclass says how its pool is written and read.

    Queries, keys and values are rounded to the cache's dtype before a kernel sees them; the result goes
    back to the model's.
    """

    def __init__(self, batch: FlatBatch, dtype: torch.dtype) -> None:
        self.batch = batch
        self._dtype = dtype

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Stores `key` and `value` [T, HKV, D], then attends `query` [T, H, D]; gives [T, H, D]."""
        model_dtype, query = query.dtype, query.to(self._dtype)
        self.store(layer, key.to(self._dtype), value.to(self._dtype))
        out, n = torch.empty_like(query), self.batch.num_decodes
        if n > 0:
            self.decode(layer, query[:n], out[:n])
        if n < len(query):
            self.prefill(layer, query[n:], out[n:])
        return out.to(model_dtype)

    @abstractmethod
    def store(self, layer: int, key: Tensor, value: Tensor) -> None:
        """Writes the keys and values of all tokens of the step."""

    @abstractmethod
    def decode(self, layer: int, query: Tensor, out: Tensor) -> None:
        """Attention of the first `num_decodes` sequences, one query each, into `out`."""

    @abstractmethod
    def prefill(self, layer: int, query: Tensor, out: Tensor) -> None:
        """Attention of the other sequences, each query to its own position and those before, into `out`."""
