"""Traces that need no file, by name. `pagelab trace list` prints them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from sim.request import Request
from sim.trace import arrivals, lengths
from sim.trace.generate import Law, generate
from sim.trace.quantiles import ALPACA, AZURE_CODE, AZURE_CONV, SHAREGPT
from sim.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class Builtin:
    """`make(seed)` gives the trace; one without randomness is the same for every seed."""

    make: Callable[[int], Trace]
    about: str
    law: Law | None = None  # where it could be of any length


def list_builtins() -> list[tuple[str, str]]:
    """Name and one-line description of each built-in trace, in the order in which to show them."""
    return [(name, builtin.about) for name, builtin in BUILTINS.items()]


SHAREGPT_LIKE = Law(
    num_requests=1000, arrivals=arrivals.Poisson(2.0), lengths=SHAREGPT, keep=lengths.PAPER_FILTER
)
ALPACA_LIKE = Law(
    num_requests=2000, arrivals=arrivals.Poisson(30.0), lengths=ALPACA, keep=lengths.PAPER_FILTER
)
# rate and gap variation of the 19,366 rows of the 2023 conversation trace
AZURE_CONV_LIKE = Law(num_requests=1000, arrivals=arrivals.Gamma(rate=5.53, cv=1.09), lengths=AZURE_CONV)
# of the 8,819 rows of the 2023 code trace, which come in bursts with minutes of nothing between them
AZURE_CODE_LIKE = Law(num_requests=1000, arrivals=arrivals.Gamma(rate=2.57, cv=13.2), lengths=AZURE_CODE)


def _demo(seed: int) -> Trace:
    return generate(
        name="demo", seed=seed, num_requests=60, keep=lengths.LengthFilter(max_prompt=256, max_total=512),
        arrivals=arrivals.Poisson(100.0), lengths=lengths.Scaled(SHAREGPT, 0.25),
    )  # fmt: skip


def _long_tail(seed: int) -> Trace:
    return generate(
        name="long-tail", seed=seed, num_requests=200, keep=lengths.LengthFilter(),
        arrivals=arrivals.Poisson(10.0), lengths=lengths.LogNormal(prompt=(40, 1.0), output=(50, 1.4)),
    )  # fmt: skip


def _thrashing(seed: int) -> Trace:
    return generate(
        name="thrashing", seed=seed, num_requests=64,
        arrivals=arrivals.AllAtOnce(), lengths=lengths.Fixed(prompt=16, output=512),
    )  # fmt: skip


def _request(request_id: str, arrival_s: float, prompt: int, output: int) -> Request:
    return Request(id=request_id, arrival_s=arrival_s, prompt=prompt, output=output, max_tokens=output)


def _four_requests(seed: int) -> Trace:
    """The guide's picture: requests that come to store 256, 512, 128 and 1024 tokens, the first of which ends
    first; a fifth of 2048 arrives while they run."""
    return Trace("four-requests", (
        _request("r1", 0.0, 240, 17),
        _request("r2", 0.0, 384, 129),
        _request("r3", 0.0, 64, 65),
        _request("r4", 0.0, 512, 513),
        _request("r5", 0.001, 1024, 1025),
    ))  # fmt: skip


def _fragmentation(seed: int) -> Trace:
    """Eight short-lived and eight long-lived requests, in turn, that come to store 256 tokens each: 4,096 in
    all. When the short-lived end they leave eight holes of 256; four of 512 wait for room."""
    requests: list[Request] = []
    for pair in range(8):
        requests += [_request(f"leaves{pair}", 0.0, 240, 17), _request(f"stays{pair}", 0.0, 56, 201)]
    requests += [_request(f"large{place}", 0.001, 384, 129) for place in range(4)]
    return Trace("fragmentation", tuple(requests))


def _shared_prefix(seed: int) -> Trace:
    plain = generate(
        name="shared-prefix", seed=seed, num_requests=40,
        arrivals=arrivals.Poisson(20.0), lengths=lengths.Uniform(prompt=(16, 64), output=(16, 64)),
    )  # fmt: skip
    requests = (
        replace(request, prompt=request.prompt + 256, prefix="system", prefix_tokens=256) for request in plain
    )
    return replace(plain, requests=tuple(requests))


def _parallel_sampling(seed: int) -> Trace:
    plain = generate(
        name="parallel-sampling", seed=seed, num_requests=20,
        arrivals=arrivals.Poisson(20.0), lengths=lengths.Uniform(prompt=(32, 256), output=(16, 64)),
    )  # fmt: skip
    return replace(plain, requests=tuple(replace(request, n=4) for request in plain))


ENDLESS = {  # these could be of any length
    "sharegpt-like": (SHAREGPT_LIKE, "1000 requests, the paper's ShareGPT lengths and filter, 2/s"),
    "alpaca-like": (ALPACA_LIKE, "2000 requests, the paper's Alpaca lengths and filter, 30/s"),
    "azure-conv-like": (AZURE_CONV_LIKE, "1000 requests like Azure's 2023 conversations"),
    "azure-code-like": (AZURE_CODE_LIKE, "1000 requests like Azure's 2023 code completion, bursty"),
}
BUILTINS = {
    "demo": Builtin(_demo, "60 requests, ShareGPT lengths / 4, for a laptop (pool 4096, max length 512)"),
    "four-requests": Builtin(_four_requests, "the guide's example: 256, 512, 128, 1024 tokens, then 2048"),
    "fragmentation": Builtin(_fragmentation, "holes of 256 for requests of 512 (pool 4096, max length 512)"),
    "long-tail": Builtin(_long_tail, "200 requests, most short, a few near 2048 tokens"),
    "thrashing": Builtin(_thrashing, "64 short prompts that all grow to 527 tokens: preemption (pool 4096)"),
    "shared-prefix": Builtin(_shared_prefix, "40 requests that begin with the same 256 tokens"),
    "parallel-sampling": Builtin(_parallel_sampling, "20 requests of 4 samples each"),
    **{name: Builtin(partial(law.trace, name), about, law) for name, (law, about) in ENDLESS.items()},
}
