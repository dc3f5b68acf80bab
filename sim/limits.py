"""Requests that can never run, whatever else is running."""

from sim.alloc import KVAllocator, Short
from sim.config import Config
from sim.narrate import refusal
from sim.request import Request


def why_never(request: Request, config: Config, allocator: KVAllocator) -> tuple[str, Short] | None:
    """Why `request` is rejected on arrival, with the two numbers; None where it can run."""
    worst, budget = request.worst_case_tokens, config.token_budget
    if worst > config.max_len:
        short = Short(worst, config.max_len)
        return f"needs {worst} tokens at worst, the maximum length is {config.max_len}", short
    if short := allocator.never_fits(request):
        is_slab = config.allocator == "slab"
        rounding = "its size classes round" if is_slab else f"{config.placement} placement rounds"
        return refusal(short, allocator.unit, rounding), short
    if request.width > min(config.max_seqs, budget):
        short = Short(request.width, min(config.max_seqs, budget))
        return f"needs {request.width} sequences at once, a step runs {short.available}", short
    if worst * request.width > budget and not config.chunked_prefill:
        short = Short(worst * request.width, budget)
        return f"needs {short.needed} tokens in one step at worst, the budget is {budget}", short
    return None
