"""When requests arrive. Each process gives sorted times in seconds, the first of them 0."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sim.errors import InputError

Times = NDArray[np.float64]


class Arrivals(Protocol):
    """Draws arrival times. The same generator state gives the same times."""

    def times(self, num_requests: int, rng: np.random.Generator) -> Times:
        """Seconds, `[num_requests]`, ascending, the first 0."""
        ...


def _positive(what: str, value: float) -> None:
    if not 0 < value < float("inf"):
        raise InputError(f"{what} {value}: must be above 0 and finite")


def _from_gaps(gaps: Times) -> Times:
    """Times of `len(gaps) + 1` requests that are `gaps` apart, in whole microseconds."""
    times = np.zeros(len(gaps) + 1)
    np.cumsum(gaps, out=times[1:])
    return np.round(times, 6)


@dataclass(frozen=True, slots=True)
class Poisson:
    """Independent requests: exponential gaps with mean `1 / rate`."""

    rate: float  # requests/s

    def __post_init__(self) -> None:
        _positive("rate", self.rate)

    def times(self, num_requests: int, rng: np.random.Generator) -> Times:
        """As `Arrivals` says."""
        return _from_gaps(rng.exponential(1 / self.rate, num_requests - 1))


@dataclass(frozen=True, slots=True)
class Gamma:
    """Gaps with mean `1 / rate` and coefficient of variation `cv`: 1 is Poisson, more is burstier."""

    rate: float  # requests/s
    cv: float

    def __post_init__(self) -> None:
        _positive("rate", self.rate)
        _positive("cv", self.cv)

    def times(self, num_requests: int, rng: np.random.Generator) -> Times:
        """As `Arrivals` says."""
        variance_ratio = self.cv**2
        return _from_gaps(rng.gamma(1 / variance_ratio, variance_ratio / self.rate, num_requests - 1))


@dataclass(frozen=True, slots=True)
class Burst:
    """`size` requests at once, every `period_s` seconds."""

    size: int
    period_s: float

    def __post_init__(self) -> None:
        _positive("burst size", self.size)
        _positive("burst period", self.period_s)

    def times(self, num_requests: int, rng: np.random.Generator) -> Times:
        """As `Arrivals` says."""
        return np.arange(num_requests) // self.size * np.float64(self.period_s)


@dataclass(frozen=True, slots=True)
class Fixed:
    """Evenly spaced, `1 / rate` apart."""

    rate: float  # requests/s

    def __post_init__(self) -> None:
        _positive("rate", self.rate)

    def times(self, num_requests: int, rng: np.random.Generator) -> Times:
        """As `Arrivals` says."""
        return np.round(np.arange(num_requests) / self.rate, 6)


@dataclass(frozen=True, slots=True)
class AllAtOnce:
    """Everybody at 0: a saturated queue."""

    def times(self, num_requests: int, rng: np.random.Generator) -> Times:
        """As `Arrivals` says."""
        return np.zeros(num_requests)


ARRIVALS = {"poisson": Poisson, "gamma": Gamma, "burst": Burst, "fixed": Fixed, "all-at-once": AllAtOnce}
