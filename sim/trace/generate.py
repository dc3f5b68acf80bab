"""Traces made from a law of arrivals and a law of lengths. One seed, one trace, byte for byte."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sim.errors import InputError
from sim.request import Request
from sim.trace.arrivals import Arrivals, Poisson
from sim.trace.lengths import LengthFilter, Lengths, Tokens
from sim.trace.trace import Trace

MAX_GENERATED = 10**7
_MAX_DRAWS = 100  # rounds of `num_requests` draws each, before a filter is called hopeless


def generate(
    *,
    arrivals: Arrivals,
    lengths: Lengths,
    num_requests: int,
    seed: int = 0,
    keep: LengthFilter | None = None,
    name: str = "generated",
) -> Trace:
    """Requests r0, r1, ... in order of arrival; pairs of lengths that `keep` refuses are drawn again.

    Arrivals and lengths have a generator each, so that another rate keeps the lengths and the other way
    round. Raises `InputError` for a bad count or seed, and when `keep` refuses nearly everything.
    """
    if not 1 <= num_requests <= MAX_GENERATED:
        raise InputError(f"number of requests {num_requests}: must be from 1 to {MAX_GENERATED}")
    arrivals_rng, lengths_rng = _generators(seed)
    times = arrivals.times(num_requests, arrivals_rng)
    prompts, outputs, num_refused = _draw(lengths, num_requests, lengths_rng, keep)
    rows = zip(times.tolist(), prompts.tolist(), outputs.tolist(), strict=True)
    requests = tuple(
        Request(id=f"r{place}", arrival_s=time, prompt=prompt, output=output, max_tokens=output)
        for place, (time, prompt, output) in enumerate(rows)
    )
    notes = [f"generated with seed {seed}; prompt and output lengths are independent"]
    if num_refused:
        notes.append(f"{num_refused} draws outside the length filter were drawn again")
    return Trace(name, requests, notes=tuple(notes))


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """What `generate` needs to make a trace of any length, and how long it usually is."""

    arrivals: Arrivals
    lengths: Lengths
    num_requests: int
    keep: LengthFilter | None = None

    def trace(self, name: str, seed: int) -> Trace:
        """The usual one."""
        return generate(
            arrivals=self.arrivals, lengths=self.lengths, num_requests=self.num_requests, keep=self.keep,
            name=name, seed=seed,
        )  # fmt: skip

    def pieces(self, num_requests: int, seed: int, size: int) -> Iterator[list[Request]]:
        """`num_requests` in pieces of `size`. Their lengths are drawn piece by piece: another trace."""
        arrivals_rng, lengths_rng = _generators(seed)
        last_s = 0.0
        for start in range(0, num_requests, size):
            count = min(size, num_requests - start)
            times = last_s + self.arrivals.times(count + 1, arrivals_rng)  # the first is `last_s` again
            times = times[1:] if start else times[:-1]
            last_s = float(times[-1])
            prompts, outputs, _ = _draw(self.lengths, count, lengths_rng, self.keep)
            rows = zip(np.round(times, 6).tolist(), prompts.tolist(), outputs.tolist(), strict=True)
            yield [
                Request(
                    id=f"r{start + place}", arrival_s=time, prompt=prompt, output=output, max_tokens=output
                )
                for place, (time, prompt, output) in enumerate(rows)
            ]


def poisson_times(num_requests: int, rate: float, seed: int) -> list[float]:
    """Arrivals for a file that has none; those that `generate` gives to the same seed."""
    return Poisson(rate).times(num_requests, _generators(seed)[0]).tolist()


def _generators(seed: int) -> tuple[np.random.Generator, np.random.Generator]:
    if seed < 0:
        raise InputError(f"seed {seed}: must be at least 0")
    arrivals, lengths = np.random.SeedSequence(seed).spawn(2)
    return np.random.default_rng(arrivals), np.random.default_rng(lengths)


def _draw(
    lengths: Lengths, num_requests: int, rng: np.random.Generator, keep: LengthFilter | None
) -> tuple[Tokens, Tokens, int]:
    """Prompts, outputs `[num_requests]`, and how many pairs were refused before the last one kept."""
    prompts, outputs = lengths.draw(num_requests, rng)
    if keep is None:
        return prompts, outputs, 0
    for _ in range(_MAX_DRAWS):
        kept = np.flatnonzero(keep.keeps(prompts, outputs))[:num_requests]
        if len(kept) == num_requests:
            return prompts[kept], outputs[kept], int(kept[-1]) + 1 - num_requests
        more_prompts, more_outputs = lengths.draw(num_requests, rng)
        prompts = np.concatenate([prompts, more_prompts])
        outputs = np.concatenate([outputs, more_outputs])
    raise InputError(f"length filter {keep}: keeps too few of the lengths drawn; widen it")
