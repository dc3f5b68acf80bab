"""Dials that do not go together. Each is refused with both names and the reason; none is silently ignored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim.dials import flag
from sim.errors import InputError
from sim.request import Request

if TYPE_CHECKING:
    from sim.config import Config


def refuse_combinations(config: Config) -> None:
    """Raises InputError for the first pair of dials that cannot work."""
    for is_wrong, sentence in (*_dependents(config), *_contradictions(config)):
        if is_wrong:
            raise InputError(sentence)


def _dependents(config: Config) -> list[tuple[bool, str]]:
    """Dials that mean nothing without another."""
    has_cache = config.prefix_cache != "off"
    return [
        (
            config.swap_blocks is not None and config.preempt != "swap",
            "--swap-blocks without --preempt swap: recompute uses no host memory; add --preempt swap",
        ),
        (
            config.sinks is not None and config.window is None,
            "--sinks without --window: sinks are what a window reads besides; add --window",
        ),
        (
            (config.keep_heavy is None) != (config.keep_recent is None),
            "--keep-recent and --keep-heavy: a budget of kept tokens needs both; give the other one too",
        ),
        (
            config.accept is not None and not config.speculate,
            "--accept without --speculate: there are no drafts to accept; add --speculate",
        ),
        (
            config.eviction is not None and not has_cache,
            "--eviction without --prefix-cache: nothing is cached, so nothing is evicted; add --prefix-cache",
        ),
        (
            config.link is not None and config.preempt != "swap",
            "--link without --preempt swap: nothing else crosses the link to the host; add --preempt swap",
        ),
        (
            config.link is not None and config.timing != "roofline",
            f"--link with --timing {config.timing}: only the roofline models the link; drop one of them",
        ),
    ]


def _contradictions(config: Config) -> list[tuple[bool, str]]:
    """Dials that exclude each other."""
    has_window, has_heavy = config.window is not None, config.keep_recent is not None
    has_cache = config.prefix_cache != "off"
    pools = [name for name in ("pool_tokens", "pool_blocks", "memory") if getattr(config, name) is not None]
    return [
        (
            len(pools) > 1,
            f"{' and '.join(map(flag, pools))}: each sets the size of the pool; give one of them",
        ),
        (
            config.step_rule == "prefill-first" and config.chunked_prefill,
            "--step-rule prefill-first with --chunked-prefill: chunks exist to share a step with decodes, "
            "which prefill-first forbids; drop one of them",
        ),
        (
            has_window and has_heavy,
            "--window with --keep-recent: each decides which tokens are dropped; drop one of them",
        ),
        (
            has_heavy and has_cache,
            "--keep-recent with --prefix-cache: what is computed after a token was dropped depends on which "
            "ones were, so equal tokens do not mean equal keys and values; drop one of them",
        ),
        (
            has_window and config.prefix_cache == "radix",
            "--window with --prefix-cache radix: a window gives up the start of a sequence first, a radix "
            "tree never keeps a node longer than its parent; use --prefix-cache hash",
        ),
    ]


def refuse_request(request: Request, config: Config) -> None:
    """Raises InputError when a request asks for what a dial of the run excludes."""
    if config.speculate and request.width > 1:
        what = "beam" if request.beam > 1 else "n"
        raise InputError(
            f"--speculate with {what} {request.width} of request {request.id}: the sequences of a request "
            "advance together, one token a step, and accepted drafts would part them; drop one of them"
        )
