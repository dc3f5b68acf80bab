"""A trace: the requests that drive a run, in order of arrival."""

import gzip
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sim.errors import InputError
from sim.files import new_file
from sim.request import Request
from sim.trace.check import check_request, check_together
from sim.trace.fields import FieldError
from sim.trace.info import trace_info
from sim.trace.native import json_line
from sim.trace.source import STANDARD_INPUT


@dataclass(frozen=True, slots=True)
class Trace:
    """Checked requests, sorted by arrival, ties in the order given (sorting is noted).

    `skipped` counts what was left out, by reason; `notes` says what else was done to the input. Raises
    `InputError` when a request contradicts itself or an id repeats.
    """

    name: str
    requests: tuple[Request, ...]
    skipped: Mapping[str, int] = field(default_factory=dict[str, int])
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for request in self.requests:
            try:
                check_request(request)
            except FieldError as error:
                raise InputError(f"request {request.id!r}, {error}") from None
        check_together(self.requests)
        ordered = tuple(sorted(self.requests, key=lambda request: request.arrival_s))
        if ordered != tuple(self.requests):
            note = "arrivals were out of order and have been sorted, ties in file order"
            object.__setattr__(self, "notes", (*self.notes, note))
        object.__setattr__(self, "requests", ordered)

    def __len__(self) -> int:
        return len(self.requests)

    def __iter__(self) -> Iterator[Request]:
        return iter(self.requests)

    @property
    def num_requests(self) -> int:
        """How many requests there are."""
        return len(self.requests)

    @property
    def span_s(self) -> float:
        """Seconds from the first to the last arrival."""
        return self.requests[-1].arrival_s - self.requests[0].arrival_s if self.requests else 0.0

    @property
    def prompt_tokens(self) -> int:
        """Prompt tokens of all requests."""
        return sum(request.prompt for request in self.requests)

    @property
    def output_tokens(self) -> int:
        """Tokens of one sample of each request."""
        return sum(request.output for request in self.requests)

    @staticmethod
    def read(
        where: str | Path,
        *,
        format: str | None = None,
        rate: float | None = None,
        spread_s: float | None = None,
        seed: int = 0,
    ) -> "Trace":
        """The trace in a file, on standard input ("-"), or built in: see `sim.trace.read.read_trace`."""
        from sim.trace.read import read_trace  # here, because readers and built-ins make traces

        return read_trace(where, format=format, rate=rate, spread_s=spread_s, seed=seed)

    def write(self, where: str | Path) -> None:
        """Write the native format to a file (gzip if it ends in .gz) or to standard output ("-").

        Keeps every field of every request; `skipped` and `notes` are about the input and stay behind.
        """
        text = "".join(json_line(request) + "\n" for request in self.requests)
        if str(where) == STANDARD_INPUT:
            sys.stdout.write(text)
            return
        data = text.encode()
        with new_file(Path(where)) as out:
            out.write(gzip.compress(data, mtime=0) if str(where).endswith(".gz") else data)

    def info(self) -> dict[str, Any]:
        """Counts, span, rate, length quantiles, `skipped` and `notes`, ready for JSON."""
        return trace_info(self)

    def first(self, num_requests: int) -> "Trace":
        """The first `num_requests` in order of arrival."""
        check_first(num_requests)
        kept = self.requests[:num_requests]
        return self._only(kept, f"after the first {num_requests}")

    def between(self, start_s: float, end_s: float) -> "Trace":
        """Arrivals in [start_s, end_s). They keep their times."""
        return self._where(
            lambda request: start_s <= request.arrival_s < end_s, f"outside {start_s:g} to {end_s:g} s"
        )

    def max_total(self, num_tokens: int) -> "Trace":
        """Requests with prompt + output of at most `num_tokens`."""
        return self._where(
            lambda request: request.prompt + request.output <= num_tokens, f"longer than {num_tokens} tokens"
        )

    def scale_rate(self, factor: float) -> "Trace":
        """The same requests arriving `factor` times as fast."""
        check_rate_scale(factor)
        scaled = tuple(replace(request, arrival_s=request.arrival_s / factor) for request in self.requests)
        return replace(self, requests=scaled)

    def _where(self, wanted: Callable[[Request], bool], reason: str) -> "Trace":
        return self._only(tuple(request for request in self.requests if wanted(request)), reason)

    def _only(self, kept: tuple[Request, ...], reason: str) -> "Trace":
        dropped = len(self.requests) - len(kept)
        if not kept:
            raise InputError(f"{self.name}: no request is left: all {dropped} are {reason}")
        skipped = {**self.skipped, reason: dropped} if dropped else self.skipped
        return replace(self, requests=kept, skipped=skipped)


def check_first(num_requests: int) -> None:
    """Raises InputError for less than one request."""
    if num_requests < 1:
        raise InputError(f"first {num_requests}: must be at least 1 request")


def check_rate_scale(factor: float) -> None:
    """Raises InputError for what is no factor."""
    if not 0 < factor < float("inf"):
        raise InputError(f"rate scale {factor}: must be above 0 and finite (2 doubles the rate)")
