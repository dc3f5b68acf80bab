"""What every pool is: memory that follows events, can be looked at, and is read by attention."""

from typing import Protocol

import torch

from engine.attend import Reading
from engine.carry_out import Memory
from engine.flat import FlatBatch
from engine.model import Attend
from engine.probe import Observable


class Pool(Memory, Observable, Protocol):
    """Physical memory for keys and values, and the table tensor that says whose they are."""

    device: torch.device

    @property
    def num_bytes(self) -> int:
        """Bytes of all slots on the device."""
        ...

    def flush(self) -> None:
        """Brings memory and the table tensor up to date with all events so far."""
        ...

    def bind(self, batch: FlatBatch, reading: Reading) -> Attend:
        """The cache as one step's attention sees it."""
        ...
