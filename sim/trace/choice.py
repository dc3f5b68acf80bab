"""Which requests drive a run: a trace by name, and what is cut from it or scaled."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace

from sim.dials import check_seed, check_type, dial
from sim.errors import InputError
from sim.request import Request
from sim.trace.pieces import generate_pieces, read_pieces
from sim.trace.source import printable
from sim.trace.trace import Trace, check_first, check_rate_scale


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceChoice:
    """What the command line and a sweep may ask of a trace. None is "not asked".

    Raises InputError for a value of another type.
    """

    trace: str
    format: str | None = dial(None, "format of TRACE, where it is not told by its content")
    rate: float | None = dial(None, "requests/s, for a TRACE that has lengths only")
    spread: float | None = dial(None, "spread arrivals that come in lumps over S seconds")
    rate_scale: float | None = dial(None, "arrivals come X times as fast")
    max_total: int | None = dial(None, "drop requests of more than N prompt + output tokens")
    between: tuple[float, float] | None = dial(None, "only arrivals in [T0, T1) s")
    first: int | None = dial(None, "only the first N requests")

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name == "between" and value is not None:
                _check_times(value)
            elif value is not None:
                check_type(item, value)

    def read(self, seed: int = 0) -> Trace:
        """The rate is scaled first, then long requests and other times go; `first` counts what is left.

        Raises InputError for anything that cannot be read, or leaves no request.
        """
        check_seed(seed)
        trace = Trace.read(self.trace, format=self.format, rate=self.rate, spread_s=self.spread, seed=seed)
        if self.rate_scale is not None:
            trace = trace.scale_rate(self.rate_scale)
        if self.max_total is not None:
            trace = trace.max_total(self.max_total)
        if self.between is not None:
            trace = trace.between(*self.between)
        if self.first is not None:
            trace = trace.first(self.first)
        return trace

    def stream(self, num_requests: int | None = None, seed: int = 0) -> Iterator[list[Request]]:
        """The requests of `read`, piece by piece, or `num_requests` by the law of a generated trace.

        Raises InputError where `read` does, and for what needs the whole of a trace.
        """
        if self.rate is not None or self.spread is not None:
            raise InputError("--rate and --spread need the whole trace; they do not go with --stream")
        if self.rate_scale is not None:
            check_rate_scale(self.rate_scale)
        if self.first is not None:
            check_first(self.first)
        if num_requests is None:
            pieces = read_pieces(self.trace, format=self.format)
        else:
            pieces = generate_pieces(self.trace, num_requests, seed)
        num_left, num_read, is_empty = self.first, 0, True
        for piece in pieces:
            kept = [scaled for request in piece if (scaled := self._take(request)) is not None]
            yield kept[:num_left]
            num_read += len(piece)
            is_empty &= not kept
            if num_left is not None and (num_left := num_left - len(kept)) <= 0:
                return
        if is_empty:
            cut = f": {num_read} were read, and --between and --max-total leave none" if num_read else ""
            raise InputError(f"{printable(self.trace)} holds no request{cut}")

    def _take(self, request: Request) -> Request | None:
        """The request as it is asked for, or None where it is not."""
        if self.rate_scale is not None:
            request = replace(request, arrival_s=request.arrival_s / self.rate_scale)
        if self.max_total is not None and request.prompt + request.output > self.max_total:
            return None
        if self.between is not None and not self.between[0] <= request.arrival_s < self.between[1]:
            return None
        return request


def _check_times(value: Sequence[object]) -> None:
    is_pair = isinstance(value, list | tuple) and len(value) == 2
    if not is_pair or not all(isinstance(time, int | float) for time in value):
        raise InputError(f"between {value}: must be two times in seconds, from and to")
