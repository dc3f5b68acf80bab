"""Claims that stand in the guide's class sketches: restated as short as they go, and run.

Each sketch keeps the fault that its original has; names and form are ours.
"""

from collections.abc import Callable
from typing import Any

from app.claims.claim import GUIDE, Claim, Finding, where

LENGTH, PAGE_SIZE, NUM_LAYERS = 1000, 16, 32


class TableSketch:
    """The page-table manager: it counts in pages of a size that nobody has told it."""

    page_size: int

    def __init__(self, num_pages: int, num_layers: int) -> None:
        self.num_layers = num_layers
        self.free = set(range(num_pages))
        self.pages: dict[str, tuple[list[int], list[int]]] = {}  # of keys, of values
        self.lengths: dict[str, int] = {}

    def append(self, request: str) -> None:
        keys, values = self.pages.setdefault(request, ([], []))
        self.lengths[request] = self.lengths.get(request, 0) + 1
        if self.lengths[request] % self.page_size == 1:
            page = self.free.pop()
            keys.append(page)
            values.append(page)


class CacheSketch:
    """The paged cache: it appends to a list of pages that a new request does not have."""

    def __init__(self, num_pages: int) -> None:
        self.free = list(range(num_pages))
        self.pages: dict[str, list[int]] = {}

    def allocate(self, request: str) -> None:
        self.pages[request].append(self.free.pop(0))


class SchedulerSketch:
    """The scheduler: whoever is complete leaves its list, and only that."""

    def __init__(self, table: TableSketch) -> None:
        self.table = table
        self.running: dict[str, int] = {}  # tokens to go

    def step(self) -> None:
        for request in self.running:
            self.table.append(request)
            self.running[request] -= 1
        self.running = {request: left for request, left in self.running.items() if left}


def outcome(attempt: Callable[[], object]) -> str:
    """What it raises, or that it works."""
    try:
        attempt()
    except (AttributeError, KeyError, TypeError) as error:
        return type(error).__name__
    return "works"


def told_its_size(num_pages: int) -> TableSketch:
    """A table to which its page size was given from outside."""
    table = TableSketch(num_pages, NUM_LAYERS)
    table.page_size = PAGE_SIZE
    return table


def filled() -> TableSketch:
    """With one request of 1,000 tokens."""
    table = told_its_size(100)
    for _ in range(LENGTH):
        table.append("r")
    return table


def appending() -> Finding:
    found = outcome(lambda: TableSketch(100, NUM_LAYERS).append("r"))
    why = (
        "Its constructor sets no page size. Given one from outside it works: "
        f"{len(filled().pages['r'][0])} pages of {PAGE_SIZE} for {LENGTH:,} tokens."
    )
    return where({"as written": found == "works"}, found, why)


def allocating() -> Finding:
    found = outcome(lambda: CacheSketch(100).allocate("new"))
    why = "A request's list of pages is appended to and nowhere made."
    return where({"a new request": found == "works"}, found, why)


def scheduling() -> Finding:
    make: Any = TableSketch  # called as the sketch calls it
    found = outcome(lambda: SchedulerSketch(make()))
    why = "It makes its page-table manager without the two numbers that this one asks for."
    return where({"as written": found == "works"}, found, why)


def freeing() -> Finding:
    scheduler = SchedulerSketch(told_its_size(100))
    scheduler.running["r"] = LENGTH
    while scheduler.running:
        scheduler.step()
    held = 100 - len(scheduler.table.free)
    why = (
        "Completed requests leave the list of running ones; nobody tells the table, which has a way to free."
    )
    return where({"after its end": held == 0}, f"{held} of 100 pages held after the last request", why)


def shape() -> Finding:
    table = filled()
    found = (len(table.pages), 2, max(map(len, table.pages["r"])))
    told = (1, table.num_layers, 2)
    keys, values = table.pages["r"]
    why = (
        f"It builds a list of pages for each request, {'the same twice' if keys == values else 'two of them'}"
        ", as long as the request needs. There is no dimension of layers, and none is wanted: a page number "
        "is good for all layers, and for keys as for values."
    )
    return where(
        {"its own code": found == told}, f"{list(found)} for {LENGTH:,} tokens, told {list(told)}", why
    )


SKETCHES = (
    Claim("sketch-append", GUIDE, "the sketch of a page-table manager appends a token", "works", appending),
    Claim(
        "sketch-allocate", GUIDE, "the sketch of a paged cache gives a request a page", "works", allocating
    ),
    Claim("sketch-scheduler", GUIDE, "the sketch of a scheduler can be made", "works", scheduling),
    Claim("sketch-frees", GUIDE, "completed requests free their pages at once", "0 held", freeing),
    Claim("table-shape", GUIDE, "a page table has the shape", "[requests, layers, 2]", shape),
)
