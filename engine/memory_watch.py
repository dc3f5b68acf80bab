"""What a run with tensors of each request's own took from the system.

tensors     bytes of all tensors, at the step with the most
live        bytes of keys and values in them that are there to be read, at that step
framework   on a GPU the most that the framework had reserved since the start of the run; on a CPU by how
            much the resident set grew at most, in which all else that the process does is contained too
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
        self._fullest = (0, 0)  # tensors, live
        self._framework = 0

    def note(self, ledger: Ledger) -> None:
        """A step has ended."""
        framework = memory_now(self._device)[self._key] - self._at_start
        self._framework = max(self._framework, framework)
        self._fullest = max(self._fullest, (self._native.tensor_bytes, ledger.live * self._native.slot_bytes))

    def report(self, allocator: str) -> dict[str, Any]:
        """The report's entry `meta["memory"]["native"]`."""
        (tensors, live), framework = self._fullest, self._framework
        return {
            "policy": POLICIES[allocator],
            "framework_bytes": framework,
            "tensor_bytes": tensors,
            "live_bytes": live,
            "waste_percent": 100.0 * (1.0 - live / framework) if framework else 0.0,
            "counted_by": self._key.removesuffix("_bytes"),
        }
