"""What a run with tensors of each request's own took from the system, at its fullest step.

live        bytes of keys and values that are there to be read
tensors     bytes of all tensors that hold them
framework   on a GPU what the framework has reserved since the start of the run; on a CPU by how much the
            resident set grew, in which everything else that the process does is contained too
"""

from typing import Any

import torch

from engine.facts import memory_now
from engine.native import NativeTensors
from sim.ledger import Ledger

POLICIES = {"max": "native-max", "grow": "native-cat"}  # by the allocator whose schedule they follow


class MemoryWatch:
    """Looks after each step. `at_start` is `memory_now` before the first."""

    def __init__(self, native: NativeTensors, device: torch.device, at_start: dict[str, int]) -> None:
        self._native = native
        self._device = device
        self._key = "reserved_bytes" if device.type == "cuda" else "resident_bytes"
        self._at_start = at_start[self._key]
        self._fullest = (0, 0, 0)  # framework, tensors, live
        self._peak_tensor_bytes = 0

    def note(self, ledger: Ledger) -> None:
        """A step has ended."""
        framework = memory_now(self._device)[self._key] - self._at_start
        tensors, live = self._native.tensor_bytes, ledger.live * self._native.slot_bytes
        self._peak_tensor_bytes = max(self._peak_tensor_bytes, tensors)
        self._fullest = max(self._fullest, (framework, tensors, live))

    def report(self, allocator: str) -> dict[str, Any]:
        """The report's entry `meta["memory"]["native"]`."""
        framework, tensors, live = self._fullest
        return {
            "policy": POLICIES[allocator],
            "framework_bytes": framework,
            "tensor_bytes": tensors,
            "live_bytes": live,
            "peak_tensor_bytes": self._peak_tensor_bytes,
            "waste_percent": 100.0 * (1.0 - live / framework) if framework else 0.0,
            "counted_by": self._key.removesuffix("_bytes"),
        }
