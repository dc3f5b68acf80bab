"""What became of each request, by column: what the report is made from, whoever served them."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim.request import Request, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """One entry for each request, in the order of the trace; times are seconds on the run's clock.

    A time is nan where it never came: no first token, not finished.
    """

    requests: tuple[Request, ...]
    reject_reasons: dict[int, str]  # by place in `requests`
    first_token_s: NDArray[np.float64]  # [requests]
    finish_s: NDArray[np.float64]  # [requests]
    emitted: list[int]
    preemptions: list[int]
    prefills: list[list[int]]  # tokens computed by each admission

    @classmethod
    def of(cls, requests: tuple[Request, ...], sequences: Iterable[Sequence]) -> "Outcomes":
        """From the scheduler's own sequences, one a request."""
        sequences = list(sequences)
        reasons = {i: s.reject_reason for i, s in enumerate(sequences) if s.reject_reason is not None}
        return cls(
            requests=requests,
            reject_reasons=reasons,
            first_token_s=times(sequence.first_token_s for sequence in sequences),
            finish_s=times(sequence.finish_s for sequence in sequences),
            emitted=[sequence.emitted for sequence in sequences],
            preemptions=[sequence.preemptions for sequence in sequences],
            prefills=[sequence.prefills for sequence in sequences],
        )

    def __len__(self) -> int:
        return len(self.requests)

    @property
    def is_finished(self) -> NDArray[np.bool_]:
        """[requests]"""
        return ~np.isnan(self.finish_s)


def times(seconds: Iterable[float | None]) -> NDArray[np.float64]:
    """As an array, with nan for None."""
    return np.array([np.nan if value is None else value for value in seconds], dtype=np.float64)


def or_none(seconds: NDArray[np.float64]) -> list[float | None]:
    """As a list, with None for nan."""
    return [value if value == value else None for value in seconds.tolist()]
