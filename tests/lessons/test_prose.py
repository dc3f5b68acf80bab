"""Figures that a lesson quotes and no cell of it computes, and the claims that it names."""

import re
from pathlib import Path

import pytest

from app.claims import CLAIMS
from lessons.source import lesson_paths, make_notebook
from sim import Trace
from sim.trace import arrivals, lengths
from sim.trace.generate import generate
from sim.trace.quantiles import SHAREGPT

# The paper's Figure 18a: microseconds of the attention kernel, vLLM's and FasterTransformer's, by batch,
# with contexts of 64, 128 and 256 tokens. Its text (section 7.1) says "20 to 26 %" of all of it.
FIGURE_18A = {
    8: ((31.5, 43.6, 84.3), (21.9, 34.9, 62.3)),
    32: ((77.1, 127.1, 235.3), (61.4, 106.7, 194.5)),
}


def prose(number: int) -> str:
    """A lesson's text, in one line."""
    cells = make_notebook(lesson_paths()[number - 1], "student").cells
    return " ".join(" ".join(cell.source for cell in cells if cell.cell_type == "markdown").split())


def named_claims(text: str) -> list[str]:
    return [id for found in re.findall(r"`pagelab claims ([^`]+)`", text) for id in found.split()]


@pytest.mark.parametrize("source", lesson_paths(), ids=lambda path: path.stem)
def test_every_claim_that_a_lesson_names_is_in_the_ledger(source: Path):
    assert set(named_claims(prose(int(source.stem[:2])))) <= set(CLAIMS)


@pytest.mark.parametrize("number", [1, 2, 4, 5, 6, 7, 8, 9, 10, 12])
def test_the_lesson_leads_to_the_ledger(number: int):
    assert "**In the ledger**" in prose(number)
    assert named_claims(prose(number))


@pytest.mark.parametrize(
    ("number", "id"),
    [
        (1, "kv-256kb"), (1, "kv-14gb"), (6, "throughput-10-40x"), (8, "admit-by-max-len"), (10, "block-512"),
        (10, "waste-60-80"),
    ],
)  # fmt: skip
def test_the_figure_that_the_lesson_quotes_is_the_one_that_is_claimed(number: int, id: str):
    assert id in named_claims(prose(number))
    assert CLAIMS[id].claimed in prose(number)


def test_the_kernels_overhead_is_the_papers():
    more = {
        batch: [100 * (ours / theirs - 1) for ours, theirs in zip(*rows, strict=True)]
        for batch, rows in FIGURE_18A.items()
    }
    assert f"{min(more[32]):.0f} to {max(more[32]):.0f} % at batch 32" in prose(5)
    assert f"up to {max(more[8]):.0f} % at batch 8" in prose(5)
    assert "20 to 26 % more time" in prose(5)


def test_the_demos_lengths_are_a_quarter_of_sharegpts():
    quarter = generate(
        name="demo", seed=0, num_requests=60, keep=lengths.LengthFilter(max_prompt=256, max_total=512),
        arrivals=arrivals.Poisson(100.0), lengths=lengths.Scaled(SHAREGPT, 1 / 4),
    )  # fmt: skip
    assert quarter.requests == Trace.read("demo").requests
    assert "(ShareGPT, a quarter as long)" in prose(2)
