"""A clock for work on a device: it waits until the device has really finished."""

import time

import torch


class Stopwatch:
    """Sums the seconds spent inside its `with` blocks."""

    def __init__(self, device: torch.device) -> None:
        self.seconds = 0.0
        self._is_cuda = device.type == "cuda"
        self._started = 0.0

    def __enter__(self) -> None:
        self._synchronize()
        self._started = time.perf_counter()

    def __exit__(self, *exception: object) -> None:
        self._synchronize()
        self.seconds += time.perf_counter() - self._started

    def _synchronize(self) -> None:
        if self._is_cuda:
            torch.cuda.synchronize()
