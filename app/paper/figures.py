"""All figures, with what a model of memory cannot say of each, and where the paper contradicts itself."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from app.paper.blocks import figure_18b, figure_19, figure_19b
from app.paper.conflicts import FIGURE_12_TEXT, FIGURE_19_TEXT, TABLE_1_TEXT
from app.paper.memory import figure_1, figure_2, figure_13
from app.paper.point import Point
from app.paper.rates import figure_12, figure_16, figure_17
from app.paper.sharing import figure_15
from sim.errors import unknown_name


@dataclass(frozen=True, slots=True)
class PaperFigure:
    """`points` computes; `limits` says where ours must differ, and where the paper differs from itself."""

    title: str
    points: Callable[[], Iterator[Point]]
    limits: str


FIGURES = {
    "1": PaperFigure(
        "Where the memory of an A100 goes",
        figure_1,
        "The text says that the KV cache takes close to 30 %, the figure's label more than 30 %. A roofline "
        "cannot say its tokens per second, only what more requests bring.",
    ),
    "2": PaperFigure(
        "Use of KV memory by system",
        figure_2,
        "The figure does not name its lengths; ShareGPT's fit. Ours is saturated, the paper's run only just.",
    ),
    "12": PaperFigure(
        "Rate kept up with",
        figure_12,
        "The roofline is a device at its best: ours serves more in absolute terms, and what counts is each "
        "rate over Oracle's. Ours lasts minutes where the paper's trace lasts an hour. "
        "FasterTransformer is modelled as batches that are served to their end over whole reservations; on "
        "OPT-175B the paper's is far slower than that, for reasons that memory does not have. "
        f"{FIGURE_12_TEXT} {TABLE_1_TEXT}",
    ),
    "13": PaperFigure(
        "Mean number of batched requests",
        figure_13,
        "The paper's 2 and 30 requests/s only just exceed what vLLM keeps up with: its batch is not full. "
        "Contiguous batches are decided by memory alone.",
    ),
    "15": PaperFigure(
        "Memory saved by sharing",
        figure_15,
        "Prompt and output are drawn independently; in reality long goes with long. Which beams survive is a "
        "seeded stand-in for a model's scores.",
    ),
    "16": PaperFigure(
        "A shared prefix",
        figure_16,
        "The paper does not print the lengths of its sentences (WMT16): 40 tokens in and out are assumed.",
    ),
    "17": PaperFigure(
        "A chatbot",
        figure_17,
        "The paper's text says twice Orca's rate, its figure shows 1.49 times.",
    ),
    "18b": PaperFigure(
        "Latency by block size",
        figure_18b,
        "A model of memory knows no kernel: the paper's small blocks are slow because they are read slowly. "
        "What ours shows is the waste of large ones.",
    ),
    "19": PaperFigure(
        "Recomputation or swap",
        figure_19,
        "The link at its best, without the cost of many small transfers that makes small blocks slow. "
        f"{FIGURE_19_TEXT}",
    ),
    "19b": PaperFigure(
        "Recomputation or swap, end to end",
        figure_19b,
        "No kernel and no small transfers here either: small blocks cost nothing. Ours recomputes in steps "
        "in which others decode, where it costs little; if steps with prompts run nothing else (--step-rule "
        "prefill-first, as the paper's vLLM), swapping is the better one with large blocks, as in the paper.",
    ),
}


def reproduce(names: Iterable[str] = ()) -> Iterator[Point]:
    """The points of these figures, or of all. Raises InputError for one that is not here."""
    chosen = tuple(names) or tuple(FIGURES)
    for name in chosen:
        if name not in FIGURES:
            raise unknown_name("figure", name, FIGURES)
    return (point for name in chosen for point in FIGURES[name].points())
