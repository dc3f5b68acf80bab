"""What must hold between the fields of one request, and between requests. Everything else trusts it."""

from collections.abc import Iterable

from sim.errors import InputError
from sim.request import Request
from sim.trace.fields import MAX_SECONDS, FieldError, count


def check_request(request: Request) -> None:
    """Raises `FieldError` that names the first field which is out of range or contradicts another."""
    if not 0 <= request.arrival_s <= MAX_SECONDS:
        raise FieldError("arrival", f"{request.arrival_s} must be a finite number of seconds, at least 0")
    count("prompt", request.prompt)
    count("output", request.output)
    if request.max_tokens != request.output and count("max_tokens", request.max_tokens) < request.output:
        raise FieldError("max_tokens", f"{request.max_tokens} must be at least output, {request.output}")
    if request.n != 1 or request.beam != 1 or request.beam_parents is not None:
        _check_samples(request)
    if request.tokens is not None or request.blocks is not None or request.block_tokens is not None:
        _check_content(request)
    if request.prefix is not None or request.prefix_tokens:
        _check_prefix(request)


def _check_samples(request: Request) -> None:
    count("n", request.n)
    count("beam", request.beam)
    if request.n > 1 and request.beam > 1:
        raise FieldError("beam", f"{request.beam} and n {request.n}: only one of them may be above 1")
    parents = request.beam_parents
    if parents is None:
        return
    if len(parents) != request.output - 1:
        raise FieldError(
            "beam_parents",
            f"{len(parents)} steps must be output - 1 = {request.output - 1}, one list for each decode step",
        )
    for step, indices in enumerate(parents):
        if len(indices) != request.beam or not all(0 <= parent < request.beam for parent in indices):
            problem = f"step {step} must be {request.beam} (beam) indices from 0 to {request.beam - 1}"
            raise FieldError("beam_parents", problem)


def _check_content(request: Request) -> None:
    if request.tokens is not None and request.blocks is not None:
        raise FieldError("blocks", "must not stand beside tokens: both say what the prompt holds")
    if request.tokens is not None and len(request.tokens) != request.prompt:
        raise FieldError("tokens", f"{len(request.tokens)} ids must be as many as prompt, {request.prompt}")
    if (request.blocks is None) != (request.block_tokens is None):
        missing = "blocks" if request.blocks is None else "block_tokens"
        raise FieldError(missing, "is missing: blocks and block_tokens come together")
    if request.blocks is None or request.block_tokens is None:
        return
    needed = -(-request.prompt // count("block_tokens", request.block_tokens))
    if len(request.blocks) != needed:
        raise FieldError(
            "blocks",
            f"{len(request.blocks)} ids must be {needed} to cover prompt {request.prompt} "
            f"at {request.block_tokens} tokens each",
        )
    if len(set(request.blocks)) != needed:
        raise FieldError("blocks", "an id repeats: an id names a whole prefix, so a prompt holds each once")


def _check_prefix(request: Request) -> None:
    if request.prefix is None or not request.prefix_tokens:
        missing = "prefix" if request.prefix is None else "prefix_tokens"
        raise FieldError(missing, "is missing: prefix and prefix_tokens come together")
    count("prefix_tokens", request.prefix_tokens, most=request.prompt)


def check_together(requests: Iterable[Request]) -> None:
    """Raises `InputError` when an id repeats, or two requests of one prefix start with different content."""
    seen: set[str] = set()
    longest: dict[tuple[str, int | None], Request] = {}
    for request in requests:
        if request.id in seen:
            raise InputError(f"id {request.id!r} is used twice: ids must be unique")
        seen.add(request.id)
        if request.prefix is not None and (request.tokens or request.blocks):
            key = (request.prefix, request.block_tokens)
            known = longest.setdefault(key, request)
            if _shared_start(request, known) != _shared_start(known, request):
                raise InputError(
                    f"requests {known.id!r} and {request.id!r} have prefix {request.prefix!r}, "
                    "but their prompts differ within it: give them different prefixes"
                )
            longest[key] = max(known, request, key=lambda one: one.prefix_tokens)


def _shared_start(request: Request, other: Request) -> tuple[int, ...]:
    """Ids of `request` that lie wholly in the prefix it has in common with `other`."""
    shared = min(request.prefix_tokens, other.prefix_tokens)
    if request.tokens is not None:
        return request.tokens[:shared]
    return (request.blocks or ())[: shared // (request.block_tokens or 1)]
