"""The batches that a calibration times: designed, not taken from a trace.

Each experiment is a handful of requests served under a clock that ticks once a step, so that what meets in a
step is known beforehand: how many sequences decode, at what context, and which prompts run beside them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sim.config import Config
from sim.request import Request
from sim.trace import Trace

Rows = list[tuple[int, int, int]]  # of each request: arrival, prompt, output

DECODE_STEPS = 6
BATCHES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
CONTEXTS = (16, 64, 256, 768, 1536, 3072)
PROMPTS = (2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 4096)


@dataclass(frozen=True, slots=True)
class Experiment:
    """Requests that arrive in whole seconds, under a clock of one second a step, and the server they meet."""

    name: str
    trace: Trace
    config: Config


def design(config: Config, most_tokens: int) -> list[Experiment]:
    """All experiments that `config`'s pool holds without a shortage, with prompts of `most_tokens` at most.

    decode     n sequences at one context, for the cost of a sequence and of what it reads
    prefill    one prompt alone, for the cost of a token by how many there are, and of (query, key) pairs
    prompts    several prompts in one step
    mixed      prompts that join decoding sequences
    copies     samples that part within a block, where blocks are shared
    swap       a pool too small for two sequences, where a shortage is met by swapping
    """
    most = min(most_tokens, config.max_len - DECODE_STEPS, config.token_budget)
    rows = dict([*_decodes(config, most), *_prefills(most), *_several(most), *_mixed(most)])
    found = [Experiment(name, _trace(name, each), config) for name, each in rows.items()]
    if config.allocator == "paged":
        found += _copies(config)
    found = [experiment for experiment in found if _fits(experiment.trace, config)]
    if config.preempt == "swap":
        found += _swaps(config, most)
    return found


def _decodes(config: Config, most: int) -> Iterator[tuple[str, Rows]]:
    for count in BATCHES:
        for context in CONTEXTS:
            if count <= config.max_seqs and context <= most and count * context <= 4 * most:
                yield f"decode {count} x {context}", [(0, context, DECODE_STEPS)] * count


def _prefills(most: int) -> Iterator[tuple[str, Rows]]:
    for prompt in PROMPTS:
        if prompt <= most:
            yield f"prefill {prompt}", [(0, prompt, 1)]


def _several(most: int) -> Iterator[tuple[str, Rows]]:
    for count in (2, 4, 8, 16):
        for prompt in (12, 40, 100, 300):
            if count * prompt <= most:
                yield f"prompts {count} x {prompt}", [(0, prompt, 1)] * count


def _mixed(most: int) -> Iterator[tuple[str, Rows]]:
    for count in (2, 6, 12, 24):
        for prompt in (20, 80, 320, 1280):
            if count * 100 + prompt <= most:
                decoding = [(0, 100, 8)] * count
                yield f"mixed {count} and {prompt}", [*decoding, (2, prompt, 2), (5, prompt // 2, 2)]


def _copies(config: Config) -> Iterator[Experiment]:
    """Each sample but one copies the last block of a prompt that ends within it."""
    if config.block_size == 1:
        return
    for count in (2, 5, 9):
        name = f"copies {count}"
        plain = _trace(name, [(0, 7 * config.block_size + 1, 4)] * 3)
        requests = tuple(replace(request, n=count) for request in plain.requests)
        yield Experiment(name, Trace(name, requests), config)


def _swaps(config: Config, most: int) -> Iterator[Experiment]:
    """Two sequences fill the pool but for a block; both soon want one more, and one of them has to go."""
    for blocks in (2, 8, 24, 64):
        tokens = blocks * config.block_size
        if tokens <= most and 2 * tokens < config.num_slots:
            name = f"swap {blocks}"
            pool = replace(
                config, pool_blocks=2 * blocks + 1, pool_tokens=None, memory=None, swap_blocks=None
            )
            yield Experiment(name, _trace(name, [(0, tokens - 2, 8)] * 2), pool)


def _trace(name: str, rows: Rows) -> Trace:
    requests = tuple(
        Request(id=f"r{place}", arrival_s=float(arrival), prompt=prompt, output=output, max_tokens=output)
        for place, (arrival, prompt, output) in enumerate(rows)
    )
    return Trace(name, requests)


def _fits(trace: Trace, config: Config) -> bool:
    """Whether no order of events can bring a shortage: rounding to blocks or powers of two included."""
    room = sum(
        request.width * (2 * (request.prompt + request.output) + config.block_size)
        for request in trace.requests
    )
    return sum(request.width for request in trace.requests) <= config.max_seqs and room <= config.num_slots
