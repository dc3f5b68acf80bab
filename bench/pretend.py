"""Compiles what the wrappers would launch, for a GPU that is not there.

The wrappers run as they are, on CPU tensors: what is compiled has the very signature, constants and
divisibilities that a call with such tensors has. Only the launch itself is left out.
Needs a process of its own: without TRITON_INTERPRET, and before anything else uses Triton.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.runtime.jit import JITFunction

from engine.attention import (
    triton_backend,
    triton_copy,
    triton_device,
    triton_quantize,
    triton_swap,
    triton_write,
)

TARGETS = {
    "sm_80": GPUTarget("cuda", 80, 32),
    "sm_90": GPUTarget("cuda", 90, 32),
    "sm_100": GPUTarget("cuda", 100, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
}


class PretendDriver:
    """What Triton asks a driver before it compiles. Each target is a device, so that caches stay apart."""

    def __init__(self, name: str) -> None:
        self.name = name

    def get_current_target(self) -> GPUTarget:
        return TARGETS[self.name]

    def get_current_device(self) -> int:
        return list(TARGETS).index(self.name)

    def get_current_stream(self, device: int) -> int:
        return 0


@contextmanager
def pretend(name: str) -> Iterator[list[Any]]:
    """Inside, a launch compiles and does nothing; the list gets (kernel's name, compiled kernel)."""
    assert not triton_device.IS_INTERPRETED, "unset TRITON_INTERPRET: it is read when kernels are imported"
    compiled: list[Any] = []
    run = JITFunction.run

    def warm_up(kernel: Any, *args: Any, grid: Any, warmup: bool, **options: Any) -> Any:
        built = run(kernel, *args, grid=grid, warmup=True, **options)
        compiled.append((kernel.__name__, built))
        return built

    modules = (triton_backend, triton_copy, triton_quantize, triton_swap, triton_write)
    check = triton_device.check_device
    triton.runtime.driver.set_active(PretendDriver(name))
    forget()
    JITFunction.run = warm_up
    for module in modules:
        module.check_device = lambda tensor: None
    try:
        yield compiled
    finally:
        JITFunction.run = run
        for module in modules:
            module.check_device = check
        forget()


def forget() -> None:
    """What `triton_device` knew about the GPU."""
    triton_device.generation.cache_clear()
    triton_device.converts_e4m3.cache_clear()
