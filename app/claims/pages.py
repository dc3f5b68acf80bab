"""Claims about pages: how many a request holds, where they lie, and how large they should be."""

from app.claims.claim import GUIDE, Claim, Finding, close, where
from app.claims.runs import request, saturated, waste
from sim import Config, Trace, simulate


def two_pages() -> Finding:
    pages = -(-256 // 512)
    return close(2, pages, f"{pages} page", "256 tokens fit half of a page of 512; the picture draws two.")


def pages_held(tokens: int) -> int:
    """Pages of 512 that a request holds when it has stored so many tokens, in a run."""
    config = Config(block_size=512, pool_blocks=8, max_len=4096, timing="unit")
    run = simulate(Trace("pages", (request("r1", tokens - 1, 2),)), config)
    return len(run.at(run.num_steps).block_tables["r1"])


def three_pages() -> Finding:
    pages = pages_held(256 + 256)
    why = (
        "A prompt of 256 tokens and 256 generated ones. Two full pages and the beginning of a third, as "
        f"drawn, are 1,025 tokens or more: {pages_held(1025)} pages."
    )
    return close(3, pages, f"{pages} page", why)


def two_for_512() -> Finding:
    found = {"its 512 tokens": pages_held(512), "one token more": pages_held(513)}
    shown = ", ".join(f"{name} {pages}" for name, pages in found.items())
    why = "The picture is of its arrival; the second page is due when it has generated something."
    return where({name: pages == 2 for name, pages in found.items()}, f"pages: {shown}", why)


def block_size_tradeoff() -> Finding:
    sizes = (1, 16, 128, 512)
    found = [waste(saturated("sharegpt", "paged", size)) for size in sizes]
    entries = [16 * 4 / size for size in sizes]
    shown = ", ".join(f"{size}: {percent:.2g} %" for size, percent in zip(sizes, found, strict=True))
    grows = found == sorted(found)
    why = f"Waste grows with blocks; tables shrink from {entries[0]:g} to {entries[-1]:.2g} B for 16 tokens."
    return where({"waste": grows, "tables": entries == sorted(entries, reverse=True)}, shown, why)


def scattered() -> Finding:
    rows = [request(f"r{k}", 16, 33) for k in range(3)]
    run = simulate(Trace("three", tuple(rows)), Config(timing="unit", pool_blocks=20))
    tables = run.at(run.num_steps).block_tables
    apart = {name: table != list(range(table[0], table[0] + len(table))) for name, table in tables.items()}
    return where(
        apart, "; ".join(f"{name} {table}" for name, table in tables.items()), "Block tables of a run."
    )


PAGES = (
    Claim(
        "two-pages-for-256",
        GUIDE,
        "a request of 256 tokens is drawn with two pages of 512",
        "2 pages",
        two_pages,
    ),
    Claim(
        "three-pages-for-512",
        GUIDE,
        "a request of 256 tokens that generates 256 is drawn with three pages of 512",
        "3 pages",
        three_pages,
    ),
    Claim(
        "two-pages-for-512",
        GUIDE,
        "a request of 512 tokens is drawn with two pages of 512 when it arrives",
        "2 pages",
        two_for_512,
    ),
    Claim(
        "block-size-tradeoff",
        GUIDE,
        "large pages fragment, small ones cost tables",
        "yes",
        block_size_tradeoff,
    ),
    Claim("non-contiguous", GUIDE, "blocks of one sequence need not be neighbours", "yes", scattered),
)
