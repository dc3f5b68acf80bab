"""What became of each request, by column: what the report is made from, whoever served them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim.request import Request, SequenceGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """One entry for each request, in the order of the trace; times are seconds on the run's clock.

    A time is nan where it never came: no first token, not finished.
    """

    requests: Sequence[Request]
    reject_reasons: dict[int, str]  # by place in `requests`
    first_token_s: NDArray[np.float64]  # [requests]
    finish_s: NDArray[np.float64]  # [requests]
    emitted: list[int]  # by all sequences of the request
    preemptions: list[int]
    prefills: list[list[int]]  # tokens computed by each admission
    hit_tokens: list[int]  # found in the prefix cache at the first admission

    @classmethod
    def of(cls, groups: Sequence[SequenceGroup]) -> "Outcomes":
        """From what the scheduler served, one group a request."""
        reasons = {place: group.reject_reason for place, group in enumerate(groups) if group.reject_reason}
        return cls(
            requests=[group.request for group in groups],
            reject_reasons=reasons,
            first_token_s=times(group.first_token_s for group in groups),
            finish_s=times(group.finish_s for group in groups),
            emitted=[group.emitted for group in groups],
            preemptions=[group.preemptions for group in groups],
            prefills=[group.prefills for group in groups],
            hit_tokens=[group.hit_tokens for group in groups],
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
