"""Where a section measures, against what, and until when."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isinf
from typing import Any

import torch


@dataclass(slots=True)
class Here:
    """One section's device, yardstick and time."""

    device: torch.device
    copy_bytes_per_s: float = float("nan")  # of the framework's own copy, measured in the same run
    stop_at: float = float("inf")  # on `time.perf_counter`: no case begins later
    left_out: list[str] = field(default_factory=list[str])  # cases for which there was no time

    @property
    def is_gpu(self) -> bool:
        """Whether anything is really measured."""
        return self.device.type == "cuda"

    def is_over(self) -> bool:
        """Whether the section's time is up."""
        return time.perf_counter() > self.stop_at

    @property
    def left_s(self) -> float | None:
        """Seconds until then; None where there is no end, as a wait for a process takes it."""
        return None if isinf(self.stop_at) else max(0.0, self.stop_at - time.perf_counter())

    def cases(self, cases: dict[str, Any], few: int = 2) -> Iterator[tuple[str, Any]]:
        """All of them in turn while there is time; on a CPU the first few."""
        for name, case in list(cases.items())[: None if self.is_gpu else few]:
            if self.is_over():
                self.left_out.append(name)
            else:
                yield name, case
