"""Where Triton's kernels run, and what that place cannot do.

The interpreter runs them on the CPU, slowly, where TRITON_INTERPRET=1 was set before this module was
imported (`@triton.jit` reads it then).
"""

import os
from functools import cache
from typing import Any

from torch import Tensor

from engine.attention.checks import require

try:
    import triton
except ImportError as error:  # no wheel for this system
    raise ValueError('backend "triton": Triton is not installed here: use backend="cpu"') from error

IS_INTERPRETED = os.environ.get("TRITON_INTERPRET", "0").lower() in ("1", "true", "on", "y", "yes")
E4M3_FROM = 89  # the first NVIDIA architecture that converts float8 e4m3


def check_device(tensor: Tensor) -> None:
    """ValueError where no kernel can run."""
    require(
        tensor.is_cuda or IS_INTERPRETED,
        f'backend "triton" needs a CUDA device, not {tensor.device}: use backend="cpu", or set '
        "TRITON_INTERPRET=1 before starting Python",
    )


def target() -> Any:
    """What kernels are compiled for: `backend` "cuda" or "hip", `arch`; None in the interpreter."""
    driver: Any = triton.runtime.driver
    return None if IS_INTERPRETED else driver.active.get_current_target()


@cache
def generation() -> str:
    """ "amd", or NVIDIA's "ampere" (before sm_90; the interpreter too), "hopper", or "blackwell" (sm_100)."""
    if IS_INTERPRETED:
        return "ampere"
    if target().backend == "hip":
        return "amd"
    arch = target().arch
    return "ampere" if arch < 90 else "hopper" if arch < 100 else "blackwell"


@cache
def converts_e4m3() -> bool:
    """Whether the GPU itself converts e4m3 as torch stores it."""
    return not IS_INTERPRETED and generation() != "amd" and target().arch >= E4M3_FROM
