"""The paper's worked examples as whole event logs: what a change of policy or of an event does to them shows.

The logs are `data/paper_figure_*.jsonl`. Physical blocks have other numbers than in the paper: here they are
taken in order. After a change that is meant:

    python -m tests.sim.test_paper_logs      # writes them anew; read the difference before it is kept
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from sim import Config, Request, Run, Trace, simulate
from sim.events import Event, EventLog
from tests.making import request
from tests.sim.test_sharing import figure_9

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True, slots=True)
class Example:
    """One figure (Kwon et al., SOSP 2023): what it shows, and what makes the same events here."""

    shows: str
    events: Callable[[], Iterable[Event]]


def run_of(*requests: Request, **dials: object) -> Run:
    config = Config(**{"block_size": 4, "pool_blocks": 8, "timing": "unit", **dials})  # pyright: ignore
    return simulate(Trace("figure", requests), config, check=True)


def reserved(one: Request, max_len: int) -> Run:
    config = Config(allocator="max", max_len=max_len, pool_tokens=max_len, timing="unit")
    return simulate(Trace("figure", (one,)), config, check=True)


def side_by_side() -> Run:
    """A is decoding when B's prompt comes, so that the blocks of both alternate in memory."""
    return run_of(request("A", 7, 6), request("B", 5, 5, 1.0))


def translations() -> Run:
    """Eight tokens of instruction and examples, then what each wants translated."""
    common = {"prefix": "translate English to French", "prefix_tokens": 8}
    return run_of(request("A", 11, 3, **common), request("B", 10, 3, 1.0, **common), prefix_cache="hash")


def beams() -> EventLog:
    """Candidates 0 and 1 go on from the second, 2 and 3 from the third; then each writes a token."""
    log = EventLog()
    allocator, group = figure_9(log)
    allocator.reorder(group, [1, 1, 2, 2])
    for sequence in group.sequences:
        allocator.grow(sequence, 1)
    return log


EXAMPLES = {
    "3_a": Example(
        "Request A reserves 2,048 slots for 7 prompt tokens and 4 of output: all but 10 are never used.",
        lambda: reserved(request("A", 7, 4), 2048).events,
    ),
    "3_b": Example(
        "Request B reserves 512 slots for 3 prompt tokens and 3 of output: all but 5 are never used.",
        lambda: reserved(request("B", 3, 3), 512).events,
    ),
    "6": Example(
        "A prompt of 7 tokens takes two blocks of 4; the first decode fills the second block, and only the "
        "next one takes a third, wherever it lies.",
        lambda: run_of(request("A", 7, 4)).events,
    ),
    "7": Example(
        "Two requests are served at once: what is next to each other in a request need not be in memory, and "
        "no block belongs to both.",
        lambda: side_by_side().events,
    ),
    "8": Example(
        "Two samples of one prompt share its blocks; the first that writes into the last one copies it, and "
        "the second, now alone with it, writes in place.",
        lambda: run_of(request("A", 7, 2, n=2)).events,
    ),
    "9": Example(
        "Of four beams two go on from each of the second and the third: the blocks of the others are freed, "
        "what all have in common stays shared, and each takes a block of its own for what follows.",
        beams,
    ),
    "10": Example(
        "Two translations begin with the same instruction and examples: the second finds their blocks in the "
        "cache and computes only its own words.",
        lambda: translations().events,
    ),
}  # fmt: skip


def lines_of(events: Iterable[Event]) -> list[str]:
    return [json.dumps(event.as_json()) for event in events]


def path_of(figure: str) -> Path:
    return DATA / f"paper_figure_{figure}.jsonl"


@pytest.mark.parametrize("figure", EXAMPLES)
def test_the_log_of_a_worked_example_is_the_one_on_file(figure: str):
    found = lines_of(EXAMPLES[figure].events())
    assert found == path_of(figure).read_text().splitlines(), EXAMPLES[figure].shows


def test_figure_7_neighbours_in_a_request_are_none_in_memory():
    assert side_by_side().at(6).block_tables == {"A": [0, 1, 4], "B": [2, 3, 5]}


def test_figure_10_both_prompts_begin_in_the_same_two_blocks():
    run = translations()
    tables = run.at(2).block_tables
    assert tables["A"][:2] == tables["B"][:2]
    assert set(tables["A"][2:]).isdisjoint(tables["B"][2:])
    assert [run.at(2).ref_counts()[block] for block in tables["A"][:2]] == [2, 2]
    assert run.requests[1]["hit_tokens"] == 8


if __name__ == "__main__":
    for name, example in EXAMPLES.items():
        path_of(name).write_text("".join(f"{line}\n" for line in lines_of(example.events())))
