"""Figures 12, 16 and 17: the rate that a server keeps up with, against Orca (Oracle)'s."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from typing import Any

from app.paper.point import Point
from app.paper.published import FIGURE_12, FIGURE_12_LARGER, FIGURE_16, FIGURE_17, SYSTEMS
from app.paper.servers import LARGER, SEED, SPAN_S, highest_rate, loaded
from sim import Config, Trace, simulate
from sim.trace import LENGTHS, generate
from sim.trace.arrivals import AllAtOnce, Poisson
from sim.trace.lengths import Fixed, LengthFilter

TRANSLATION = (40, 40)  # tokens of a sentence and its translation beside the prefix: not in the paper
NUM_SENTENCES = 1_000
FASTER_TRANSFORMER = {"allocator": "max", "batching": "static"}  # a batch is served to its end, section 6.1
LOWEST_RATE = 0.25  # requests a second: where the search for a rate begins
CHAT_PROMPT = 1024  # the prompt is cut to its last 1,024 tokens, the answer to as many


def basic(lengths: str, rate: float) -> Trace:
    """Plain requests."""
    return loaded(lengths, rate, round(rate * SPAN_S[lengths]))


@cache
def rate_of(lengths: str, system: str, model: str | None = None) -> float:
    """Requests a second of a system of `SYSTEMS`; of OPT-13B, or of a `LARGER` model."""
    dials = FASTER_TRANSFORMER if system == "ft" else {"allocator": system}
    return highest_rate(partial(basic, lengths), LOWEST_RATE, **dials, **(LARGER[model] if model else {}))


def figure_12() -> Iterator[Point]:
    """Rates at 0.5 s a token, and what they are of Orca (Oracle)'s: the part that memory decides."""
    for lengths, paper in FIGURE_12.items():
        yield from panel(lengths, paper)
    for (model, lengths), paper in FIGURE_12_LARGER.items():
        yield from panel(lengths, paper, model)


def panel(lengths: str, paper: dict[str, float], model: str | None = None) -> Iterator[Point]:
    """One plot of figure 12."""
    rates = {system: rate_of(lengths, system, model) for system in paper}
    where = f"{model}, {lengths}" if model else lengths
    for system, ours in rates.items():
        yield Point("12", f"{where}, {SYSTEMS[system]}", "requests/s", paper[system], ours)
    for system in ("ft", "max", "pow2", "paged"):
        ratio = paper[system] / paper["oracle"]
        ours = rates[system] / rates["oracle"]
        yield Point("12", f"{where}, {SYSTEMS[system]} over Oracle", "x", ratio, ours)


@cache
def translation(prefix: int) -> Trace:
    """Sentences to translate behind one instruction of `prefix` tokens, all there from the start."""
    prompt, output = TRANSLATION
    trace = generate(
        name="translation",
        seed=SEED,
        num_requests=NUM_SENTENCES,
        keep=LengthFilter(),
        arrivals=AllAtOnce(),
        lengths=Fixed(prompt=prefix + prompt, output=output),
    )
    requests = (replace(request, prefix="instruction", prefix_tokens=prefix) for request in trace.requests)
    return replace(trace, requests=tuple(requests))


def translated_per_s(prefix: int, **dials: Any) -> float:
    """Sentences a second, LLaMA-13B in the paper's pool."""
    config = Config(model="llama-2-13b", pool_tokens=15_728, seed=SEED, **dials)
    run = simulate(translation(prefix), config, record=False)
    return run.report()["throughput"]["requests_per_s"]


def figure_16() -> Iterator[Point]:
    """A shared prefix, LLaMA-13B."""
    for prefix, paper in FIGURE_16.items():
        ours = translated_per_s(prefix, prefix_cache="hash") / translated_per_s(prefix, allocator="oracle")
        yield Point("16", f"prefix of {prefix} tokens, vLLM over Oracle", "x", paper, ours)


def chat(rate: float) -> Trace:
    """Long histories: every prompt is cut to 1,024 tokens."""
    trace = generate(
        name="chat",
        seed=SEED,
        num_requests=round(rate * 900),
        keep=LengthFilter(),
        arrivals=Poisson(rate),
        lengths=LENGTHS["sharegpt"],
    )
    rows = (
        replace(row, prompt=CHAT_PROMPT, output=min(row.output, 1024), max_tokens=1024)
        for row in trace.requests
    )
    return replace(trace, requests=tuple(rows))


def figure_17() -> Iterator[Point]:
    """A chatbot without a cache between turns."""
    ours = highest_rate(chat, 0.1, allocator="paged") / highest_rate(chat, 0.1, allocator="oracle")
    yield Point("17", "vLLM over Oracle", "x", FIGURE_17, ours)
