"""Claims about sharing: prompts, samples, drafts."""

from app.claims.claim import GUIDE, TOPIC, Claim, Finding, close, where
from app.claims.sizes import PER_TOKEN
from sim import Config, Request, Run, Trace, simulate
from sim.events import Kind

PROMPT, REQUESTS = 12, 100


def shared_prompt(block_size: int) -> Run:
    """100 requests that begin with the same 12 tokens and add 4 of their own, under a prefix cache."""
    rows = [
        Request(
            id=f"r{k}", arrival_s=float(k), prompt=PROMPT + 4, output=4, max_tokens=4, prefix="system",
            prefix_tokens=PROMPT,
        )
        for k in range(REQUESTS)
    ]  # fmt: skip
    config = Config(block_size=block_size, prefix_cache="hash", timing="unit", pool_tokens=16_384)
    return simulate(Trace("system prompt", tuple(rows)), config)


def sampled(block_size: int) -> Run:
    """One prompt of 12 tokens with 100 samples."""
    row = Request(id="r0", arrival_s=0.0, prompt=PROMPT, output=8, max_tokens=8, n=REQUESTS)
    return simulate(
        Trace("samples", (row,)), Config(block_size=block_size, timing="unit", pool_tokens=65_536)
    )


def shared_by_hundred() -> Finding:
    hits = {size: shared_prompt(size).report()["prefix"]["hit_tokens"] for size in (4, 16, 512)}
    shown = ", ".join(f"blocks of {size}: {count:,} tokens hit" for size, count in hits.items())
    why = "Separate requests share full blocks only: 12 tokens fill three blocks of 4, and none of 16 or 512."
    return where(
        {f"blocks of {size}": count == (REQUESTS - 1) * PROMPT for size, count in hits.items()}, shown, why
    )


def copied_when_appending() -> Finding:
    copies = {size: sampled(size).report()["copies"] for size in (4, 16, 512)}
    shown = ", ".join(f"blocks of {size}: {count} copies" for size, count in copies.items())
    why = (
        "A block that the prompt fills in part is copied for every writer but the last; full ones never are."
    )
    return where({f"blocks of {size}": count == 0 for size, count in copies.items()}, shown, why)


def unshared_bytes() -> Finding:
    each, total = PROMPT * PER_TOKEN, REQUESTS * PROMPT * PER_TOKEN
    why = f"12 tokens of Llama 7B take {each / 1e6:.1f} MB, not 12 KB: the guide counts 1 KB for a token."
    return close(1.2e6, total, f"{total / 1e6:.0f} MB", why)


def shared_bytes() -> Finding:
    block = 16 * PER_TOKEN
    return close(
        24_000, block, f"{block / 1e6:.1f} MB", "One block of 16 tokens of Llama 7B, which holds all 12."
    )


def until_they_diverge() -> Finding:
    row = Request(id="r0", arrival_s=0.0, prompt=7, output=8, max_tokens=8, n=2)
    run = simulate(Trace("Figure 8", (row,)), Config(block_size=4, timing="unit", pool_blocks=9))
    copies = [event for event in run.events if event.kind is Kind.COPY]
    shown = f"{len(copies)} copy for two samples of a prompt of 7, blocks of 4"
    return where(
        {"two samples": len(copies) == 1},
        shown,
        "The paper's Figure 8: the second writer owns the block alone.",
    )


def drafting(accept: float) -> Run:
    row = Request(id="r0", arrival_s=0.0, prompt=16, output=120, max_tokens=120)
    config = Config(speculate=5, accept=accept, timing="unit", pool_tokens=512)
    return simulate(Trace("drafts", (row,)), config)


def draft_pages() -> Finding:
    run = drafting(0.0)
    steps = sum(event.kind is Kind.DECODE and "drafts" in event.changes for event in run.events)
    blocks = sum(len(e.changes["blocks"]) for e in run.events if e.kind is Kind.ALLOC) - 1
    why = "A block is taken only when the drafts reach past the last one: with blocks of 16, now and then."
    shown = f"{blocks} blocks allocated in {steps} steps of 5 drafts"
    return where({"every step": blocks == steps}, shown, why)


def failed_drafts() -> Finding:
    run = drafting(0.0)
    rolled_back = sum(event.kind is Kind.ROLLBACK for event in run.events)
    freed = sum(event.kind is Kind.FREE for event in run.events) - 1  # the last one is the request's end
    why = (
        "Rejected drafts are overwritten: their slots stay with the sequence, which needs them a step later."
    )
    return where({"rejected drafts": freed > 0}, f"{freed} blocks freed after {rolled_back} roll-backs", why)


SHARING = (
    Claim(
        "prompt-shared-by-100",
        GUIDE,
        "a prompt of 12 tokens is stored once for 100 requests",
        "once",
        shared_by_hundred,
    ),
    Claim("prompt-1.2mb", GUIDE, "storing it 100 times wastes", "1.2 MB", unshared_bytes),
    Claim("prompt-24kb", GUIDE, "storing it once takes", "24 KB", shared_bytes),
    Claim(
        "prompt-stays-shared",
        GUIDE,
        "what 100 requests append grows beside the one shared prompt",
        "no copies",
        copied_when_appending,
    ),
    Claim("copy-on-write", TOPIC, "samples share blocks until they diverge", "one copy", until_they_diverge),
    Claim("drafts-take-a-page", GUIDE, "five drafts allocate a page", "1 page", draft_pages),
    Claim("drafts-free-pages", GUIDE, "pages of rejected drafts are freed", "freed", failed_drafts),
)
