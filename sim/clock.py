"""Time inside the simulator is a whole number of picoseconds, so that sums do not depend on their order."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.errors import InputError

PS_PER_S = 10**12
MAX_STEP_S = 4_000_000  # means weigh steps by their picoseconds, which must stay below 2^62 (`sim.series`)


def to_ps(seconds: float) -> int:
    """Seconds, rounded to whole picoseconds."""
    return round(seconds * PS_PER_S)


def step_ps(seconds: float) -> int:
    """How long a step of so many seconds lasts: at least 1 ps. InputError when it is beyond counting."""
    if not seconds <= MAX_STEP_S:
        raise InputError(
            f"a step of {seconds:.3g} s: at most {MAX_STEP_S} s (46 days) can be counted; "
            "lower the costs in the timing FILE, or let a step run less (--max-batch-tokens, --max-len)"
        )
    return round(seconds * PS_PER_S) or 1


def to_s(picoseconds: int) -> float:
    """Picoseconds as seconds, for people and reports."""
    return float(picoseconds) / PS_PER_S


# The same for arrays, bit for bit: the tests say so.


def all_to_s(picoseconds: NDArray[Any]) -> NDArray[np.float64]:
    """`to_s` of each; takes 64-bit integers, or Python's where those are too small."""
    return picoseconds.astype(np.float64) / PS_PER_S


def all_step_ps(seconds: NDArray[np.float64]) -> NDArray[np.int64]:
    """`step_ps` of each; at least one."""
    step_ps(float(seconds.max()))  # refuses what is beyond counting
    return np.maximum(np.rint(seconds * PS_PER_S), 1.0).astype(np.int64)
