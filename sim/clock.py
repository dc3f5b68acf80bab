"""Time inside the simulator is a whole number of picoseconds, so that sums do not depend on their order."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

PS_PER_S = 10**12


def to_ps(seconds: float) -> int:
    """Seconds, rounded to whole picoseconds."""
    return round(seconds * PS_PER_S)


def to_s(picoseconds: int) -> float:
    """Picoseconds as seconds, for people and reports."""
    return float(picoseconds) / PS_PER_S


def step_ps(seconds: float) -> int:
    """How long a step of so many seconds lasts: at least one picosecond."""
    return max(1, to_ps(seconds))


# The same for arrays, bit for bit: the tests say so.


def all_to_s(picoseconds: NDArray[Any]) -> NDArray[np.float64]:
    """`to_s` of each; takes 64-bit integers, or Python's where those are too small."""
    return picoseconds.astype(np.float64) / PS_PER_S


def all_step_ps(seconds: NDArray[np.float64]) -> NDArray[np.int64]:
    """`step_ps` of each."""
    return np.maximum(np.rint(seconds * PS_PER_S), 1.0).astype(np.int64)
