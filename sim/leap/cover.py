"""Which runs can leap. All others are stepped, with the same result."""

from dataclasses import fields

from sim.config import Config
from sim.request import Request
from sim.trace import Trace

# What this package knows how to do. A dial that is not here must stand at its default.
COVERED: dict[str, tuple[str, ...] | None] = {  # None: any value
    "allocator": ("paged", "max", "pow2", "oracle"),
    "placement": None,
    "pool_tokens": None,
    "pool_blocks": None,
    "memory": None,
    "block_size": None,
    "max_len": None,
    "model": None,
    "kv_dtype": None,
    "hardware": None,
    "batching": ("continuous", "static", "sequential"),
    "step_rule": ("mixed", "prefill-first"),
    "max_seqs": None,
    "max_batch_tokens": None,
    "chunked_prefill": None,
    "watermark": None,
    "preempt": ("recompute", "swap"),
    "swap_blocks": None,
    "link": None,
    "victim": ("youngest",),
    "prefix_cache": ("off",),
    "tensor_parallel": None,
    "timing": None,
    "seed": None,
}


def can_leap(trace: Trace, config: Config) -> bool:
    """Whether `leap` covers this run."""
    return why_not(trace, config) is None


def why_not(trace: Trace, config: Config) -> str | None:
    """Why this run must be stepped, or None."""
    if why := why_not_dials(config, len(trace)):
        return why
    return next((why for request in trace.requests if (why := why_not_request(request))), None)


def why_not_dials(config: Config, num_requests: int) -> str | None:
    """Why no trace of so many requests can leap with these dials, or None."""
    for dial in fields(config):
        value, known = getattr(config, dial.name), COVERED.get(dial.name, (dial.default,))
        if known is not None and value not in known:
            return f"{dial.name.replace('_', ' ')} {value}: leaps know only {', '.join(map(str, known))}"
    if config.step_rule == "prefill-first" and config.token_budget < min(config.max_seqs, num_requests):
        return "a budget below max_seqs with prefill-first: some sequences would have to skip a step"
    if config.chunked_prefill and config.preempt == "swap":
        return "chunked prefill with swap: a chunk may come before younger decodes, which then skip a step"
    return None


def why_not_request(request: Request) -> str | None:
    """Why a trace with this request cannot leap, or None."""
    return f"request {request.id} has several sequences" if request.width > 1 else None
